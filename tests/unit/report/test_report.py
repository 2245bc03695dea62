import asyncio
from dataclasses import dataclass
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphmill as gm

ONCE = gm.Retry(attempts=1)


async def fail_odd(number):
    if number % 2:
        raise gm.Permanent(f"{number} is odd")
    return number


def failing(failed, total, **policy):
    """Run a batch in which the last so many of all items fail."""

    async def graph(number):
        if number >= total - failed:
            raise gm.Permanent("no")
        return number

    return gm.batch(graph, range(total), policy=gm.Policy(**policy))


def backwards(items, **options):
    """Run a batch whose items are finished last first; the outputs are the items."""
    turn = {}

    async def graph(pair):
        position, value = pair
        if position < len(items) - 1:
            await turn.setdefault(position + 1, asyncio.Event()).wait()
        turn.setdefault(position, asyncio.Event()).set()
        return value

    done = []
    policy = gm.Policy(concurrency=max(1, len(items)))
    report = gm.batch(
        graph,
        list(enumerate(items)),
        policy=policy,
        on_result=lambda job, result: done.append(result.position),
        **options,
    )
    assert done == sorted(done, reverse=True)
    return report


# --- summary ---


def test_the_summary_counts_what_succeeded_and_what_failed():
    assert failing(2, 10_000).summary() == "9,998/10,000 items succeeded, 2 failed"
    assert failing(0, 3).summary() == "3/3 items succeeded"
    assert failing(1200, 1200).summary() == "0/1,200 items succeeded, 1,200 failed"


def test_the_summary_of_nothing_is_zero_of_zero_and_no_failure():
    report = gm.batch(fail_odd, [])
    assert report.summary() == "0/0 items succeeded"
    assert (report.error_lines(), report.collect(), report.merge(), report.is_failure) == ([], [], {}, False)


def test_the_summary_tells_cancelled_items_apart_from_failed_ones():
    runs = []

    async def graph(number):
        if number == 0:
            runs[0].cancel("2")
        return number

    report = gm.batch(graph, [0, 1, 2], concurrency=1, on_start=runs.append)
    assert report.summary() == "2/3 items succeeded, 1 cancelled"
    assert (report.is_failure, report.stopped, report.error_lines()) == (False, None, [])


def test_the_summary_tells_what_was_never_reached():
    report = gm.batch(fail_odd, [1, 2, 3, 4], policy=gm.Policy(concurrency=1, window=1, on_failure="fail_fast"))
    assert report.summary() == "0/4 items succeeded, 1 failed, 3 pending"
    assert (report.stopped, report.is_failure) == ("fail_fast", True)


def test_a_timed_out_item_is_a_failed_one_in_the_summary_and_the_errors():
    async def graph(number):
        await asyncio.Event().wait()

    report = gm.batch(graph, [1], policy=gm.Policy(timeout_s=0.001, retry=ONCE))
    assert report.summary() == "0/1 items succeeded, 1 failed"
    (line,) = report.error_lines()
    assert line.startswith("  0   timeout   ")
    assert line.endswith("0.001 s (1 attempt)")
    assert report.is_failure


# --- whether it failed ---


@pytest.mark.parametrize(
    ("max_failures", "failed", "total", "is_failure"),
    [
        (None, 0, 3, False),
        (None, 1, 3, True),
        (0, 0, 3, False),
        (1, 1, 3, False),
        (1, 2, 3, True),
        (5, 3, 3, True),
        (5, 1, 1, True),
        (0.5, 1, 2, False),
        (0.5, 2, 3, True),
        (0.3, 1, 3, True),
        (0.34, 1, 3, False),
        (1.0, 2, 3, False),
        (1.0, 3, 3, True),
        (0.05, 5, 100, False),
        (0.05, 6, 100, True),
    ],
)
def test_a_batch_failed_where_more_failed_than_tolerated_or_all_did(max_failures, failed, total, is_failure):
    assert failing(failed, total, max_failures=max_failures).is_failure is is_failure


def test_a_share_is_judged_at_the_end_even_where_it_was_too_few_to_stop_for():
    report = failing(1, 3, max_failures=0.2)
    assert (report.stopped, report.is_failure) == (None, True)


def test_a_batch_that_was_stopped_failed_even_if_nothing_in_it_did():
    report = gm.batch(fail_odd, [0, 2], on_start=lambda run: run.cancel())
    assert (report.stopped, report.is_failure) == ("cancelled", True)
    assert report.summary() == "0/2 items succeeded, 2 pending"


# --- results ---


def test_results_are_in_input_order_whatever_order_they_came_in():
    report = backwards(["a", "b", "c"])
    assert [result.output for result in report.results()] == report.collect() == ["a", "b", "c"]


def test_results_of_one_status_or_those_for_which_something_holds():
    report = gm.batch(fail_odd, range(6))
    assert [result.position for result in report.results(status="failed")] == [1, 3, 5]
    assert [result.position for result in report.results(status=gm.Status.SUCCEEDED)] == [0, 2, 4]
    assert [result.position for result in report.results(where=lambda result: result.position > 3)] == [4, 5]
    assert [
        result.position for result in report.results(status="failed", where=lambda result: result.position > 3)
    ] == [5]
    assert list(report.results(status="cancelled")) == []
    assert len(list(report.results())) == 6


def test_an_unknown_status_is_told_at_once_with_those_there_are():
    with pytest.raises(gm.UsageError, match=r"no status 'done'; results have succeeded, failed, timed_out, cancelled"):
        gm.batch(fail_odd, [0]).results(status="done")


@pytest.mark.parametrize(
    "use",
    [
        lambda report, folder: report.results(),
        lambda report, folder: report.collect(),
        lambda report, folder: report.merge(),
        lambda report, folder: report.reduce(max, 0),
        lambda report, folder: report.export(folder / "out.jsonl"),
        lambda report, folder: report.stream(gm.sink(folder / "out.jsonl")),
    ],
    ids=["results", "collect", "merge", "reduce", "export", "stream"],
)
def test_a_batch_that_kept_no_results_refuses_to_give_them_with_the_remedy(tmp_path, use):
    report = gm.batch(fail_odd, range(3), keep_results=False)
    with pytest.raises(gm.UsageError, match=r"kept no results .*sinks"):
        use(report, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_batch_that_kept_no_results_still_has_its_figures_and_first_errors():
    report = gm.batch(fail_odd, range(20), keep_results=False)
    assert report.summary() == "10/20 items succeeded, 10 failed"
    assert len(report.errors) == 5
    assert [line.split()[:2] for line in report.error_lines()] == [["10", "×"]]


# --- collect, reduce, stream, export ---


def test_collect_leaves_out_what_failed_and_keeps_falsy_outputs():
    async def graph(item):
        if item == "bad":
            raise gm.Permanent("bad")
        return item

    report = gm.batch(graph, [None, 0, "bad", "", [], False])
    assert report.collect() == [None, 0, "", [], False]
    assert report.collect(where=lambda result: result.position % 2 == 0) == [None, []]


def test_reduce_folds_in_input_order_even_if_completion_was_in_another():
    assert backwards(["a", "b", "c"]).reduce(lambda text, output: text + output, ">") == ">abc"


def test_reduce_leaves_out_what_failed_and_gives_the_first_value_where_nothing_is_left():
    report = gm.batch(fail_odd, range(6))
    assert report.reduce(lambda total, output: total + output, 100) == 106
    assert report.reduce(lambda total, output: total + output, 100, where=lambda result: result.position > 2) == 104
    assert report.reduce(lambda total, output: total + output, "first", where=lambda result: False) == "first"


class Memory:
    """A sink that remembers."""

    def __init__(self, fails_at=None):
        self.calls = []
        self.fails_at = fails_at

    def write(self, result):
        if result.position == self.fails_at:
            raise OSError("full")
        self.calls.append(result.output)

    def commit(self, *, complete):
        self.calls.append("commit")

    def abort(self):
        self.calls.append("abort")


def test_streaming_writes_every_result_in_input_order_and_commits_once():
    sink = Memory()
    backwards(["a", "b", "c"]).stream(sink)
    assert sink.calls == ["a", "b", "c", "commit"]


def test_streaming_takes_failures_too_unless_they_are_left_out():
    report, every, good = gm.batch(fail_odd, range(3)), Memory(), Memory()
    report.stream(every)
    report.stream(good, where=lambda result: result.is_success)
    assert every.calls == [0, None, 2, "commit"]
    assert good.calls == [0, 2, "commit"]


def test_a_sink_that_fails_is_aborted_and_its_error_passed_on():
    sink = Memory(fails_at=1)
    with pytest.raises(OSError, match="full"):
        backwards(["a", "b", "c"]).stream(sink)
    assert sink.calls == ["a", "abort"]


def test_an_export_holds_what_was_chosen_in_input_order(tmp_path):
    backwards(["a", "b", "c", "d"]).export(tmp_path / "out.jsonl", where=lambda result: result.output != "b")
    assert [row["output"] for row in gm.source(tmp_path / "out.jsonl")] == ["a", "c", "d"]


def test_the_export_of_a_run_that_ended_early_replaces_no_other_and_its_path_is_given(tmp_path):
    gm.batch(str.upper, ["a", "b"]).export(tmp_path / "out.jsonl")
    broken = gm.batch(lambda _: 1 / 0, range(5), concurrency=1, policy=gm.Policy(on_failure="fail_fast"))
    assert broken.export(tmp_path / "out.jsonl") == tmp_path / "out.partial.jsonl"
    assert [row["output"] for row in gm.source(tmp_path / "out.jsonl")] == ["A", "B"]
    assert len(list(gm.source(tmp_path / "out.partial.jsonl"))) == 5


outputs = st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3), max_size=5)
quick = settings(deadline=None, max_examples=40)


def report_of(*outputs, ids="abcdefgh"):
    items = [{"id": name, "output": output} for name, output in zip(ids, outputs, strict=False)]
    return gm.batch(lambda item: item["output"], items)


def finished_backwards(first, second):
    """Two jobs, the second of which is finished first."""
    ready = asyncio.Event()

    async def graph(item):
        if item["id"] == "first":
            await ready.wait()
        ready.set()
        return item["output"]

    return gm.batch(graph, [{"id": "first", "output": first}, {"id": "second", "output": second}])


def conflicts(mappings):
    return any(
        key in later and later[key] != value
        for n, one in enumerate(mappings)
        for key, value in one.items()
        for later in mappings[n:]
    )


@given(outputs)
@quick
def test_last_is_what_updating_one_after_the_other_gives(mappings):
    assert report_of(*mappings).merge(conflict="last") == reduce(lambda one, other: one | other, mappings, {})


@given(outputs)
@quick
def test_first_is_what_updating_in_reverse_gives(mappings):
    assert report_of(*mappings).merge(conflict="first") == reduce(lambda one, other: other | one, mappings, {})


@given(outputs)
@quick
def test_error_refuses_exactly_where_first_and_last_differ(mappings):
    report = report_of(*mappings)
    if conflicts(mappings):
        with pytest.raises(gm.UsageError, match="give different values for"):
            report.merge()
    else:
        assert report.merge() == report.merge(conflict="first") == report.merge(conflict="last")


@given(outputs)
@quick
def test_a_function_decides_over_what_is_merged_so_far_and_the_next(mappings):
    merged = report_of(*mappings).merge(conflict=max)
    assert merged == {key: max(one[key] for one in mappings if key in one) for one in mappings for key in one}


def test_merging_does_not_change_the_outputs():
    report = report_of({"a": [1]}, {"b": [2]})
    merged = report.merge()
    merged["c"] = 3
    assert report.collect() == [{"a": [1]}, {"b": [2]}]


def test_a_conflict_names_both_jobs_the_entry_and_the_remedy():
    report = report_of({"x": 1}, {"y": 1}, {"x": 2}, ids=["one", "two", "three"])
    with pytest.raises(
        gm.UsageError,
        match=r"'one' and 'three' give different values for 'x'; .*conflict='first', 'last' or a function",
    ):
        report.merge()


def test_first_and_last_go_by_input_order_whatever_was_finished_first():
    report = finished_backwards({"x": 1}, {"x": 2})
    assert report.merge(conflict="first") == {"x": 1}
    assert report.merge(conflict="last") == {"x": 2}
    assert report.merge(conflict=lambda one, other: (one, other)) == {"x": (1, 2)}


def test_equal_values_are_no_conflict_but_one_and_true_are():
    assert report_of({"x": [1]}, {"x": [1]}).merge() == {"x": [1]}
    for one, other in ((1, True), (1, 1.0), (0, False), ("1", 1)):
        with pytest.raises(gm.UsageError, match="different values"):
            report_of({"x": one}, {"x": other}).merge()


def test_by_a_key_whole_outputs_are_merged():
    report = report_of({"user": "u1", "n": 1}, {"user": "u2", "n": 2}, {"user": "u1", "n": 1})
    assert report.merge(key="user") == {"u1": {"user": "u1", "n": 1}, "u2": {"user": "u2", "n": 2}}


def test_by_a_key_two_different_outputs_are_a_conflict():
    report = report_of({"user": "u1", "n": 1}, {"user": "u1", "n": 2})
    with pytest.raises(gm.UsageError, match="'a' and 'b' give different values for 'u1'"):
        report.merge(key="user")
    assert report.merge(key="user", conflict="last") == {"u1": {"user": "u1", "n": 2}}


def test_only_chosen_results_are_merged_and_failures_never():
    def graph(item):
        if item == 1:
            raise gm.Permanent("no")
        return {item: item}

    report = gm.batch(graph, [0, 1, 2, 3])
    assert report.merge() == {0: 0, 2: 2, 3: 3}
    assert report.merge(where=lambda result: result.position > 2) == {3: 3}


@dataclass
class Answer:
    text: str


@pytest.mark.parametrize(
    ("output", "name"), [("text", "str"), (None, "NoneType"), ([1], "list"), (Answer("a"), "Answer")]
)
def test_an_output_that_is_no_mapping_is_refused_with_its_job_and_type(output, name):
    with pytest.raises(gm.UsageError, match=f"outputs must be mappings, got {name} from 'b'"):
        report_of({"a": 1}, output).merge()


def test_an_output_without_the_key_is_refused_with_what_it_has():
    with pytest.raises(gm.UsageError, match="'b' has no field 'user'; it has 'usr', 'n'"):
        report_of({"user": 1}, {"usr": 2, "n": 3}).merge(key="user")


def test_a_key_that_can_not_be_looked_up_is_refused_with_its_type():
    with pytest.raises(gm.UsageError, match="'user' of 'a' is a list"):
        report_of({"user": ["u1"]}).merge(key="user")


@pytest.mark.parametrize("conflict", ["newest", None, 1])
def test_an_unknown_rule_is_refused_even_where_nothing_conflicts(conflict):
    with pytest.raises(gm.UsageError, match=r"conflict must be .*'first', 'last' or a function"):
        gm.batch(lambda item: item, []).merge(conflict=conflict)
