"""``gm.batch`` and ``gm.abatch``: a function over items, from plain Python."""

import asyncio
import json
import sys
import threading

import pytest

import graphmill as gm
from support import warm
from support.command import HANG_S
from support.virtual_clock import run_virtual


async def double(value):
    return value * 2


def test_a_function_over_items_gives_a_report():
    report = gm.batch(double, [1, 2, 3])
    assert report.summary() == "3/3 items succeeded"
    assert report.collect() == [2, 4, 6]
    assert not report.is_failure


def test_async_and_plain_functions_and_any_kind_of_series_will_do():
    async def stream():
        for value in (1, 2):
            yield value

    for function in (double, lambda value: value * 2):
        for items in ([1, 2], (1, 2), range(1, 3), iter([1, 2]), {1: None, 2: None}.keys(), stream()):
            assert gm.batch(function, items).collect() == [2, 4]


def test_the_report_is_in_input_order_and_names_failures():
    async def work(value):
        await asyncio.sleep(10 - value)
        if value in (3, 4):
            raise gm.Permanent(f"no {value}")
        return value

    report = run_virtual(gm.abatch(work, range(10)))
    assert report.summary() == "8/10 items succeeded, 2 failed"
    assert [result.position for result in report.results()] == list(range(10))
    assert [(result.job_id, result.error.kind, result.error.message) for result in report.results(status="failed")] == [
        ("3", "permanent", "no 3"),
        ("4", "permanent", "no 4"),
    ]
    assert report.is_failure


def test_an_item_goes_by_the_named_field_or_its_id_or_its_position():
    items = [{"id": "x", "key": 5}, {"id": 0, "key": 6}]

    async def nothing(_):
        return None

    def ids(**options):
        return [result.job_id for result in gm.batch(nothing, items, **options).results()]

    assert ids() == ["x", "0"]
    assert ids(id_field="key") == ["5", "6"]
    assert [result.job_id for result in gm.batch(nothing, ["a", {"id": None}, {"id": [1]}]).results()] == [
        "0",
        "1",
        "2",
    ]


def test_an_item_without_the_named_id_ends_the_batch_with_its_position_and_its_fields():
    with pytest.raises(gm.SourceError, match="position 1 has no id: it has no field 'key', only 'id'") as caught:
        gm.batch(double, [{"key": 1}, {"id": 2}], id_field="key")
    assert caught.value.report.statistics.done == 1


def test_two_items_with_one_id_are_refused_and_the_report_holds_the_rest():
    with pytest.raises(gm.DuplicateIdError, match="'a' at position 2 is already used at position 0") as caught:
        gm.batch(double, [{"id": "a"}, {"id": "b"}, {"id": "a"}])
    assert caught.value.report.statistics.done == 2


def test_a_source_that_fails_raises_and_the_report_of_what_was_done_comes_with_it(tmp_path):
    def source():
        yield from range(5)
        raise OSError("gone")

    target = tmp_path / "out.jsonl"
    with pytest.raises(gm.SourceError, match="after 5 items") as caught:
        gm.batch(double, source(), sinks=[gm.sink(target)])
    assert caught.value.report.collect() == [0, 2, 4, 6, 8]
    assert [path.name for path in tmp_path.iterdir()] == ["out.partial.jsonl"]
    assert len((tmp_path / "out.partial.jsonl").read_text().splitlines()) == 5


def test_concurrency_overrides_the_policy_s():
    async def work(_):
        await asyncio.sleep(1)

    report = run_virtual(gm.abatch(work, range(20), policy=gm.Policy(concurrency=1, timeout_s=5), concurrency=20))
    assert report.statistics.elapsed_s == pytest.approx(1)


def test_sinks_get_every_result_while_the_batch_runs_off_the_loop():
    seen = []

    class Sink:
        def write(self, result):
            assert threading.current_thread() is not threading.main_thread()
            seen.append(result.output)

        def commit(self, *, complete):
            seen.append("commit" if complete else "partial")

        def abort(self):
            seen.append("abort")

    report = gm.batch(double, iter(range(3000)), sinks=[Sink()], keep_results=False)
    assert sorted(seen[:-1]) == [value * 2 for value in range(3000)]
    assert seen[-1] == "commit"
    with pytest.raises(gm.UsageError, match="keep_results"):
        report.results()


def test_a_sink_that_fails_stops_the_batch_and_the_report_of_what_was_done_comes_with_the_error():
    ends = []

    class Full:
        def write(self, result):
            if result.position == 50:
                raise OSError("no space left")

        def commit(self, *, complete):
            ends.append("commit")

        def abort(self):
            ends.append("abort")

    with pytest.raises(gm.ExportError, match="a sink failed: OSError: no space left") as caught:
        gm.batch(double, range(100_000), sinks=[Full()])
    assert ends == ["abort"]
    assert 50 < len(caught.value.report.collect()) < 100_000


@pytest.mark.parametrize("is_plain", [True, False])
def test_an_output_that_no_file_can_hold_is_that_item_s_failure_and_not_the_batch_s(tmp_path, is_plain):
    async def odd(value):
        return object() if value == 50 else value

    target = tmp_path / "out.jsonl"
    report = gm.batch((lambda value: odd(value)) if is_plain else odd, range(100), sinks=[gm.sink(target)])
    assert report.summary() == "99/100 items succeeded, 1 failed"
    assert [str(result.error) for result in report.failures()] == [
        "permanent: the output is not JSON: object is not a JSON type"
    ]
    assert len(target.read_text().splitlines()) == 100


def test_a_run_that_ends_early_never_replaces_the_results_of_one_that_did_not(tmp_path):
    async def work(value):
        if value == "bad":
            raise gm.Permanent("bad")

    target = tmp_path / "out.jsonl"
    gm.batch(work, ["good"] * 3, sinks=[gm.sink(target)])
    stopped = gm.batch(
        work, ["bad", "good"], policy=gm.Policy(on_failure="fail_fast"), concurrency=1, sinks=[gm.sink(target)]
    )
    assert stopped.stopped is gm.StopReason.FAIL_FAST
    assert len(target.read_text().splitlines()) == 3
    assert len((tmp_path / "out.partial.jsonl").read_text().splitlines()) == 2


def test_a_sink_that_is_never_used_leaves_nothing_behind(tmp_path):
    target = tmp_path / "out.jsonl"
    with pytest.raises(gm.UsageError):
        gm.batch(7, [1], sinks=[gm.sink(target)])
    assert list(tmp_path.iterdir()) == []


def test_a_batch_cancelled_while_its_sinks_commit_still_commits_them():
    began, ends = threading.Event(), []

    class Slow:
        def write(self, result):
            pass

        def commit(self, *, complete):
            began.set()
            release.wait(timeout=60)
            ends.append(("commit", complete))

        def abort(self):
            ends.append("abort")

    release = threading.Event()

    async def main():
        async with asyncio.TaskGroup() as group:
            task = group.create_task(gm.abatch(double, [1], sinks=[Slow()]))
            await asyncio.to_thread(began.wait, 60)
            task.cancel()
            await asyncio.sleep(0)
            release.set()
            await asyncio.wait([task])
            return task.cancelled()

    assert asyncio.run(main()) is True
    assert ends == [("commit", True)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sinks": ["out.jsonl"]}, "sinks must be a list"),
        ({"sinks": "out.jsonl"}, "sinks must be a list"),
        ({"sinks": 7}, "sinks must be a list"),
        ({"observers": print}, "observers must be a list of functions"),
        ({"observers": [1]}, "observers must be a list of functions"),
        ({"on_result": 3}, "on_result must be a function"),
        ({"on_progress": "x"}, "on_progress must be a function"),
        ({"policy": {"concurrency": 3}}, "policy must be a Policy"),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused_before_the_first_item(options, message):
    def never(_):
        raise AssertionError

    with pytest.raises(gm.UsageError, match=message):
        gm.batch(never, [1], **options)


def test_a_function_that_yields_is_refused():
    def plain(value):
        yield value

    async def on_loop(value):
        yield value

    for function in (plain, on_loop):
        with pytest.raises(gm.UsageError, match="yields"):
            gm.batch(function, [1])


def test_a_report_reads_well_where_it_is_printed():
    report = gm.batch(double, range(1000))
    assert repr(report) == "<Report: 1,000/1,000 items succeeded>"


def test_failures_are_those_that_failed_and_those_that_timed_out():
    async def work(value):
        if value == 1:
            raise gm.Permanent("no")
        if value == 2:
            await asyncio.sleep(100)

    report = run_virtual(gm.abatch(work, range(4), policy=gm.Policy(timeout_s=5, retry=gm.Retry(attempts=1))))
    assert [result.status.value for result in report.failures()] == ["failed", "timed_out"]


def test_on_start_is_given_the_live_run():
    async def work(value):
        await asyncio.sleep(1)

    runs = []
    report = run_virtual(gm.abatch(work, range(30), on_start=lambda run: (runs.append(run), run.set_concurrency(30))))
    assert report.statistics.elapsed_s == pytest.approx(1)
    assert runs[0].progress().done == 30


def test_inside_a_running_loop_the_plain_form_points_to_the_async_one():
    async def main():
        gm.batch(double, [1])

    with pytest.raises(gm.UsageError, match="await abatch"):
        asyncio.run(main())


def test_a_cancelled_batch_still_writes_what_it_has_come_to_and_passes_the_cancellation_on():
    written = []

    class Sink:
        def write(self, result):
            written.append(result.status.value)

        def commit(self, *, complete):
            written.append("commit" if complete else "partial")

        def abort(self):
            written.append("abort")

    started = asyncio.Event()
    cancelled = []

    async def work(value):
        if value == 3:
            started.set()
            await asyncio.Event().wait()
        return value

    async def main():
        async with asyncio.TaskGroup() as group:
            task = group.create_task(gm.abatch(work, range(8), concurrency=1, sinks=[Sink()]))
            await started.wait()
            task.cancel()
            await asyncio.wait([task])
            cancelled.append(task.cancelled())

    asyncio.run(main())
    assert cancelled == [True]
    assert written == ["succeeded"] * 3 + ["cancelled"] * 5 + ["partial"]


def test_ctrl_c_in_the_plain_form_keeps_what_was_done_and_is_raised_as_keyboard_interrupt(tmp_path):
    script = """
import asyncio, os, signal
import graphmill as gm

async def work(value):
    if value == 5:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
    return value

try:
    gm.batch(work, range(10), concurrency=1, sinks=[gm.sink("out.jsonl")])
except KeyboardInterrupt:
    print("interrupted")
"""
    done = warm.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S)
    assert done.stdout == "interrupted\n", done.stderr
    statuses = [json.loads(line)["status"] for line in (tmp_path / "out.partial.jsonl").read_text().splitlines()]
    assert (statuses.count("succeeded"), statuses.count("cancelled")) == (5, 5)


@pytest.mark.parametrize("graph", [7, None, object()])
def test_what_can_not_be_called_is_refused(graph):
    with pytest.raises(gm.UsageError, match="graph must be a function, a workflow"):
        gm.batch(graph, [1])


def test_ten_megabytes_in_one_item_beside_good_ones():
    items = ["x" * 10_000_000, "y", "z"]
    report = gm.batch(lambda text: len(text), items)
    assert report.collect() == [10_000_000, 1, 1]


def test_a_function_that_swallows_cancellation_does_not_hold_the_end_of_the_plain_form():
    gate = threading.Event()

    async def immortal(_):
        while not gate.is_set():
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue

    report = gm.batch(immortal, [1], policy=gm.Policy(timeout_s=0.01, grace_s=0.01, retry=gm.Retry(attempts=1)))
    gate.set()
    assert report.summary() == "0/1 items succeeded, 1 failed"
    assert report.statistics.stuck == 1


def test_an_item_that_no_file_can_hold_is_left_out_of_its_row_and_the_row_says_so(tmp_path):
    target = tmp_path / "out.jsonl"
    report = gm.batch(lambda item: len(item["n"]), [{"n": "ab"}, {"n": b"abc"}], sinks=[gm.sink(target)])
    assert report.summary() == "2/2 items succeeded"
    rows = sorted(map(json.loads, target.read_text().splitlines()), key=lambda row: row["id"])
    assert [(row["input"], row["output"]) for row in rows] == [({"n": "ab"}, 2), (None, 3)]
    assert rows[1]["metadata"] == {"input_left_out": "bytes is not a JSON type"}


def test_jobs_are_not_items():
    job = gm.Job(id="a", graph=str.upper, input="x")
    with pytest.raises(gm.SourceError, match=r"gm\.BatchExecutor\(\)\.start\(jobs\)"):
        gm.batch(str.upper, [job])


def test_a_keyword_that_nothing_takes_is_refused_with_the_one_that_is_meant():
    with pytest.raises(gm.UsageError) as refusal:
        gm.batch(double, [1, 2], sink=None, on_progres=True, max_failures=0, concurency=3, attempts=2, bogus=1)
    assert str(refusal.value) == (
        "gm.batch has no such keyword: 'sink' (did you mean 'sinks'?); 'on_progres' (did you mean 'on_progress'?); "
        "'max_failures' belongs in policy=gm.Policy(max_failures=…); 'concurency' (did you mean 'concurrency'?); "
        "'attempts' belongs in policy=gm.Policy(retry=gm.Retry(attempts=…)); 'bogus'"
    )


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda: gm.run(double, question="hi"),
            r"'question'.*\(the inputs are one mapping: gm\.run\(graph, \{'question': …\}\)\)",
        ),
        (lambda: gm.run(double, 1, on_resutl=print), r"'on_resutl' \(did you mean 'on_result'\?\)"),
        (lambda: gm.resume("night", journl="runs.db"), r"gm.resume .*'journl' \(did you mean 'journal'\?\)"),
        (lambda: gm.retry("night", kind="timeout"), r"gm.retry .*'kind' \(did you mean 'kinds'\?\)"),
        (lambda: asyncio.run(gm.abatch(double, [1], timeout_s=3)), r"policy=gm.Policy\(timeout_s=…\)"),
    ],
)
def test_every_function_of_the_facade_refuses_keywords_it_does_not_take(call, told):
    with pytest.raises(gm.UsageError, match=told):
        call()
