"""G8: by what an item of a recorded run is known, and what is done when the items are not what they were."""

import asyncio
import re
import threading

import pytest

import graphmill as gm
from support.odd_texts import LONE_SURROGATES, ODD_TEXTS
from support.recording import Calls, Program
from support.remains import HANG_S


@pytest.fixture
def journal(tmp_path):
    found = gm.open_journal(tmp_path / "runs.db")
    yield found
    found.close()


def run_of(journal, items, **options):
    """Run a batch over items as the run "r"; give the report and what its function was called with."""
    calls = Calls()
    return gm.batch(calls, items, run_id="r", journal=journal, **options), calls.told


def ids(report):
    return [result.job_id for result in report.results()]


def with_ids(*names):
    return [{"id": name} for name in names]


def test_an_item_goes_by_the_named_field_or_its_own_id_or_its_content(journal):
    assert ids(run_of(journal, [{"id": "x", "key": 5}], id_field="key")[0]) == ["5"]
    plain = gm.batch(Calls(), [{"id": "x"}, {"n": 1}, {"n": 2}], journal=journal)
    assert ids(plain)[0] == "x"
    assert len(set(ids(plain))) == 3


def test_equal_items_without_ids_are_told_apart_by_a_number_and_known_again(journal):
    report, calls = run_of(journal, ["a", "b", "a", "a"])
    names = ids(report)
    assert [name.partition("~")[2] for name in names] == ["", "", "2", "3"]
    assert len(calls) == 4
    again, calls = run_of(journal, ["a", "a", "b", "a", "a"])
    assert calls == ["a"]
    assert again.summary() == "5/5 items succeeded"


def test_the_order_of_keys_does_not_count(journal):
    run_of(journal, [{"a": 1, "b": [{"c": 1, "d": 2}]}])
    assert run_of(journal, [{"b": [{"d": 2, "c": 1}], "a": 1}])[1] == []


def test_an_id_that_reads_like_another_item_s_content_is_no_duplicate(journal):
    assert run_of(journal, [{"id": 5}, 5, {"id": '"a"'}, "a"])[0].statistics.succeeded == 4


@pytest.mark.parametrize("is_list", [True, False])
def test_two_equal_ids_are_found_however_far_apart(journal, is_list):
    items = with_ids(*range(1500), 0)
    with pytest.raises(gm.DuplicateIdError, match="'0' at position 1500") as caught:
        run_of(journal, items if is_list else iter(items), concurrency=2)
    assert caught.value.report.statistics.succeeded == 1500


@pytest.mark.parametrize("twice", [0, 5])
def test_two_equal_ids_are_found_on_resume_too_whether_known_or_new(journal, twice):
    run_of(journal, with_ids(0, 1))
    with pytest.raises(gm.DuplicateIdError, match=f"'{twice}' at position 1500"):
        run_of(journal, iter(with_ids(*range(1500), twice)))


def test_of_two_equal_ids_the_second_is_refused_also_where_only_that_one_is_as_it_was(journal):
    run_of(journal, with_ids(*range(3)))
    with pytest.raises(gm.DuplicateIdError, match="'1' at position 2"):
        run_of(journal, [{"id": 0}, {"id": 1, "text": "new"}, {"id": 1}, {"id": 2}], on_change="invalidate")


def test_what_stands_is_counted_as_what_it_is_wherever_it_is_among_the_rest(journal):
    def work(item):
        if item["id"] % 100 == 7:
            raise gm.Permanent("no")

    items = with_ids(*range(1200))
    gm.batch(work, items, run_id="r", journal=journal)
    again = gm.batch(work, [*items[600:], *with_ids(*range(1200, 1203)), *items[:600]], run_id="r", journal=journal)
    assert (again.statistics.succeeded, again.statistics.failed, again.done_now) == (1191, 12, 3)


def test_two_equal_ids_are_found_among_what_is_done_again(journal):
    run_of(journal, with_ids(*range(3)))
    with pytest.raises(gm.DuplicateIdError, match="'0' at position 1500"):
        run_of(journal, iter(with_ids(*range(1500), 0)), version="2", on_change="invalidate")


def test_items_put_in_moved_or_taken_out_are_run_known_and_kept_as_orphaned(journal):
    run_of(journal, with_ids("a", "b", "c", "d"))
    report, calls = run_of(journal, with_ids("new", "d", "c", "a", "last"))
    assert calls == with_ids("new", "last")
    assert {result.job_id: result.metadata.get("orphaned", False) for result in report.results()} == {
        "a": False, "b": True, "c": False, "d": False, "new": False, "last": False,
    }  # fmt: skip
    back, calls = run_of(journal, with_ids("a", "b", "c", "d", "new", "last"))
    assert calls == []
    assert not any(result.metadata.get("orphaned") for result in back.results())


def test_what_is_done_again_is_not_orphaned_and_what_is_gone_is(journal):
    run_of(journal, with_ids("a", "b", "gone"))
    report, _ = run_of(journal, with_ids("a", "b"), version="2", on_change="invalidate")
    assert [result.job_id for result in report.results() if result.metadata.get("orphaned")] == ["gone"]


def test_an_edited_item_is_refused_or_done_again_or_kept_as_is_said(journal):
    run_of(journal, [{"id": "a", "text": "old"}, {"id": "b"}])
    edited = [{"id": "b"}, {"id": "a", "text": "new"}]
    with pytest.raises(gm.ChangedError, match=r"'a' .*position 1.* has changed"):
        run_of(journal, edited)
    kept, calls = run_of(journal, edited, on_change="keep")
    assert (calls, kept.collect(where=lambda result: result.job_id == "a")) == ([], [{"id": "a", "text": "old"}])
    again, calls = run_of(journal, edited, on_change="invalidate")
    assert (calls, again.statistics.total) == ([edited[1]], 2)
    assert run_of(journal, edited)[1] == []


@pytest.mark.parametrize(
    ("count", "named"), [(2, "'0' (position 0), '1' (position 1)"), (1500, "'4' (position 4) and 1,495 more")]
)
def test_edited_items_are_named_together(journal, count, named):
    items = [{"id": str(number), "text": "old"} for number in range(1501)]
    run_of(journal, items)
    edited = [{**item, "text": "new"} for item in items[:count]] + items[count:]
    with pytest.raises(gm.ChangedError, match=rf"items .*{re.escape(named)} have changed .*redo them"):
        run_of(journal, edited)


def test_of_a_source_that_may_be_slow_only_the_first_edited_item_is_named(journal):
    run_of(journal, [{"id": "a"}, {"id": "b"}])
    read = []

    def edited():
        for name in "ab":
            read.append(name)
            yield {"id": name, "text": "new"}

    with pytest.raises(gm.ChangedError, match=r"item 'a' \(position 0\) has changed"):
        run_of(journal, edited())
    assert read == ["a"]


ODD = [
    0,
    "",
    None,
    [],
    {},
    False,
    0.5,
    {"id": ""},
    {"id": None},
    *ODD_TEXTS.values(),
    *LONE_SURROGATES.values(),
    "x" * 5_000_000,
]


def test_odd_items_are_stored_and_known_again(journal):
    report, calls = run_of(journal, ODD)
    assert len(calls) == len(ODD)
    assert [result.input for result in report.results()] == report.collect() == ODD
    assert run_of(journal, list(reversed(ODD)))[1] == []


def test_a_number_that_json_lacks_is_stored_as_null_and_known_again(journal):
    report, _ = run_of(journal, [{"id": "a", "x": float("nan")}, [float("inf")]])
    assert [result.input for result in report.results()] == [{"id": "a", "x": None}, [None]]
    assert run_of(journal, [{"id": "a", "x": float("nan")}, [float("inf")]])[1] == []


def test_an_item_that_is_no_data_needs_an_id(journal):
    client = object()

    async def work(_):
        return "done"

    with pytest.raises(gm.SourceError, match=r"position 1 can't be identified .* give it an id"):
        gm.batch(work, ["a", client], run_id="bad", journal=journal)
    for done_now in (1, 0):
        report = gm.batch(work, [{"id": "a", "client": client}], run_id="good", journal=journal)
        assert (report.collect(), report.done_now) == (["done"], done_now)
    assert next(report.results()).metadata["input_left_out"]


def test_sets_in_items_and_steps_are_the_same_in_every_process(tmp_path):
    program = Program(
        tmp_path,
        """
        def look(words):
            note("look")
            return 1

        async def work(item):
            await gm.step(look, item["words"])
            if len(noted()) == 1:
                note("death")
                die()
        """,
    )
    script = 'gm.batch(work, [{"id": 1, "words": {"a", "b", "c", "d", "e", "f"}}], run_id="r")'
    program.run(script, code=-9)
    for _ in range(3):
        program.run(script)
    assert program.notes == ["look", "death"]


def test_an_async_source_is_recorded_and_resumed(journal):
    async def source(count):
        for number in range(count):
            yield number

    assert run_of(journal, source(3))[0].collect() == [0, 1, 2]
    assert run_of(journal, source(5))[1] == [3, 4]


def test_the_first_item_of_a_slow_source_runs_before_the_second_is_known(journal):
    has_run = threading.Event()

    def source():
        yield "first"
        assert has_run.wait(HANG_S)
        yield "second"

    async def work(item):
        has_run.set()
        return item

    assert gm.batch(work, source(), journal=journal).collect() == ["first", "second"]


@pytest.mark.parametrize("kind", ["generator", "async", "file", "list"])
def test_everything_before_a_mistake_in_the_source_is_done_and_resume_goes_on_there(journal, tmp_path, kind):
    items = with_ids(*range(700))

    def generator():
        yield from items
        raise OSError("gone")

    async def generator_later():
        for item in generator():
            yield item
            await asyncio.sleep(0)

    path = tmp_path / "items.jsonl"
    path.write_text("".join(f'{{"id": {number}}}\n' for number in range(700)) + "{oh no\n")
    series = {
        "generator": generator,
        "async": generator_later,
        "file": lambda: gm.source(path),
        "list": lambda: [*items, 7],
    }[kind]()
    with pytest.raises(gm.SourceError) as caught:
        run_of(journal, series, id_field="id")
    assert caught.value.report.statistics.succeeded == 700
    assert journal.archive.find("r").state == "failed"
    whole, calls = run_of(journal, [*items, {"id": 700}], id_field="id")
    assert (calls, whole.statistics.succeeded) == ([{"id": 700}], 701)
