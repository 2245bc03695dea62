"""``gm.retry``: failed items of a recorded run, done again."""

import asyncio
from contextlib import closing

import pytest

import graphmill as gm
from graphmill.core.json import item_key
from support.recording import KILLED, PROMPT, Program, statuses


@pytest.fixture
def journal(tmp_path):
    with closing(gm.open_journal(tmp_path / "runs.db")) as found:
        yield found


class Weak:
    """A function that fails for some items, in their ways, until it is healed; notes what it was called with."""

    def __init__(self, **errors):
        self.errors = errors
        self.calls = []

    async def __call__(self, item):
        self.calls.append(item["id"])
        if error := self.errors.get(item["id"]):
            raise error
        return item["id"].upper()

    def heal(self, *names):
        self.calls.clear()
        for name in names or list(self.errors):
            del self.errors[name]


ITEMS = [{"id": name} for name in "abcdef"]


def weak_run(journal):
    """Record a run in which b and c fail for good and e three times over."""
    work = Weak(b=gm.Permanent("no b"), c=gm.Permanent("no c"), e=gm.Transient("no e"))
    report = gm.batch(work, ITEMS, run_id="r", journal=journal, policy=PROMPT)
    assert report.summary() == "3/6 items succeeded, 3 failed"
    return work


def test_failed_items_are_done_again_and_the_figures_are_those_of_all_items(journal):
    work = weak_run(journal)
    work.heal("b", "e")
    report = gm.retry("r", graph=work, journal=journal)
    assert work.calls == ["b", "c", "e"]
    assert report.summary() == "5/6 items succeeded, 1 failed"
    assert (report.statistics.total, report.done_now) == (6, 3)
    assert [result.output for result in report.results()] == ["A", "B", None, "D", "E", "F"]
    assert [result.metadata.get("generation", 1) for result in report.results()] == [1, 2, 2, 1, 2, 1]
    assert journal.archive.find("r").state == "finished"
    assert gm.batch(work, ITEMS, run_id="r", journal=journal).summary() == report.summary()


@pytest.mark.parametrize(
    ("chosen", "called"),
    [
        ({"items": ["c"]}, ["c"]),
        ({"kinds": ["permanent"]}, ["b", "c"]),
        ({"kinds": ["transient", "timeout"]}, ["e"]),
        ({"items": ["b", "e"], "kinds": ["transient"]}, ["e"]),
    ],
)
def test_some_are_chosen_by_id_or_kind(journal, chosen, called):
    work = weak_run(journal)
    work.heal()
    gm.retry("r", graph=work, journal=journal, **chosen)
    assert work.calls == called


def test_attempts_are_counted_from_one_again(journal):
    work = weak_run(journal)
    work.heal("b", "c")
    report = gm.retry("r", graph=work, journal=journal)
    assert work.calls == ["b", "c", "e", "e", "e"]
    assert [result.attempts for result in report.failures()] == [3]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"items": ["zz"]}, "no result of an item 'zz'"),
        ({"items": ["a"]}, "no failed items to retry among"),
        ({"kinds": ["timeout"]}, "no failed items to retry among"),
        ({"kinds": ["gloomy"]}, "no kind 'gloomy'; kinds are"),
        ({"kinds": ["tranzient"]}, r"no kind 'tranzient' \(did you mean 'transient'\?\); kinds are"),
        ({"on_change": "invalidate"}, "on_change must be 'refuse' or 'keep' for retry"),
    ],
)
def test_what_can_not_be_meant_is_refused_and_the_run_stays_as_it_is(journal, chosen, message):
    work = weak_run(journal)
    with pytest.raises(gm.UsageError, match=message):
        gm.retry("r", graph=work, journal=journal, **chosen)
    work.heal()
    assert gm.retry("r", graph=work, journal=journal).summary() == "6/6 items succeeded"
    with pytest.raises(gm.UsageError, match="no failed items to retry"):
        gm.retry("r", graph=work, journal=journal)


def test_what_may_have_happened_is_named_where_nothing_else_is_left_to_retry(journal):
    async def send(item):
        raise gm.Ambiguous("nobody knows")

    gm.batch(send, [{"id": "a"}, {"id": "b"}], run_id="r", journal=journal, effect="unsafe")
    with pytest.raises(gm.UsageError, match="2 items that may have happened, and no others to retry; --kind ambiguous"):
        gm.retry("r", graph=send, journal=journal)


def test_after_a_change_only_keep_goes_on_and_what_succeeded_stays(journal):
    weak_run(journal)

    async def mended(item):
        return item["id"] * 2

    with pytest.raises(gm.ChangedError, match="6 results"):
        gm.retry("r", graph=mended, journal=journal)
    report = gm.retry("r", graph=mended, journal=journal, on_change="keep")
    assert report.collect() == ["A", "bb", "cc", "D", "ee", "F"]
    assert gm.batch(mended, ITEMS, run_id="r", journal=journal).done_now == 0


def test_a_retry_of_a_run_that_was_not_finished_leaves_the_rest_to_resume(journal):
    work = Weak(b=gm.Permanent("no b"))

    def broken():
        yield from ITEMS[:3]
        raise OSError("gone")

    with pytest.raises(gm.SourceError):
        gm.batch(work, broken(), run_id="r", journal=journal)
    work.heal()
    assert gm.retry("r", graph=work, journal=journal).statistics.succeeded == 3
    assert journal.archive.find("r").state == "paused"
    assert gm.batch(work, ITEMS, run_id="r", journal=journal).summary() == "6/6 items succeeded"
    assert work.calls == ["b", "d", "e", "f"]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({2: "two", 10: "ten"}, {"2": "two", "10": "ten"}),
        ((1, 2), [1, 2]),
        (float("nan"), None),
    ],
)
def test_inputs_are_those_that_were_recorded_and_known_again_by_resume(journal, given, stored):
    told = []

    async def work(item):
        told.append(item)
        if len(told) == 1:
            raise gm.Permanent("once")

    gm.batch(work, [{"id": "a", "given": given}], run_id="r", journal=journal)
    gm.retry("r", graph=work, journal=journal)
    assert told[1] == {"id": "a", "given": stored}
    assert gm.batch(work, [{"id": "a", "given": given}], run_id="r", journal=journal).done_now == 0


def test_an_item_whose_input_is_no_data_can_not_be_retried_and_the_remedy_is_named(journal):
    async def work(_):
        raise gm.Permanent("no")

    gm.batch(work, [{"id": "b"}, {"id": "a", "client": object()}], run_id="r", journal=journal)
    before = journal.find("r")
    with pytest.raises(gm.UsageError, match="not plain data and was not stored; run the batch again with its items"):
        gm.retry("r", graph=work, journal=journal)
    after = journal.find("r")
    assert (after.state, after.manifest, after.rows) == (before.state, before.manifest, before.rows)
    assert gm.retry("r", graph=work, journal=journal, items=["b"]).done_now == 1


def test_kinds_are_taken_from_any_iterable_and_one_that_is_misspelt_is_suggested(journal):
    async def work(_):
        raise gm.Permanent("no")

    gm.batch(work, [1], run_id="r", journal=journal)
    assert gm.retry("r", graph=work, journal=journal, kinds=iter(["permanent"])).done_now == 1
    with pytest.raises(gm.UsageError, match=r"no kind 'permament' \(did you mean 'permanent'\?\)"):
        gm.retry("r", graph=work, journal=journal, kinds=["permament"])


def test_a_key_stays_the_same_in_a_retry(journal):
    keys = []

    async def work(_):
        keys.append(gm.idempotency_key())
        if len(keys) == 1:
            raise gm.Permanent("once")

    gm.batch(work, [1], run_id="r", journal=journal)
    gm.retry("r", graph=work, journal=journal)
    assert len(keys) == 2
    assert keys[0] == keys[1]


def test_every_outcome_of_an_item_is_kept(journal):
    work = weak_run(journal)
    work.heal()
    gm.retry("r", graph=work, journal=journal)
    history = journal.archive.history(journal.archive.find("r"), item_key("e"))
    assert [(entry.generation, str(entry.result.status)) for entry in history.entries] == [
        (1, "failed"),
        (2, "succeeded"),
    ]
    assert [(attempt.generation, attempt.attempt) for attempt in history.attempts] == [(1, 1), (1, 2)]


def test_a_retry_that_is_drained_counts_no_item_twice(journal):
    weak_run(journal)
    runs = []

    async def drain(item):
        runs[0].drain(0)
        await asyncio.sleep(60)

    report = gm.retry("r", graph=drain, journal=journal, on_change="keep", on_start=runs.append)
    assert (report.stopped, report.summary()) == ("request", "3/6 items succeeded, 3 failed")


def test_a_retry_that_is_killed_is_gone_on_with_by_resume_and_nothing_else_is_done_again(tmp_path):
    program = Program(
        tmp_path,
        """
        def work(item):
            note(item["id"])
            if "healed" not in noted():
                if item["id"] != "a":
                    raise gm.Permanent("no")
            elif item["id"] == "c" and noted().count("c") == 2:
                die()
            return item["id"]
        """,
    )
    (tmp_path / "items.jsonl").write_text("".join(f'{{"id": "{name}"}}\n' for name in "abcd"))
    program.run('gm.batch(work, gm.source("items.jsonl"), run_id="r", concurrency=1); note("healed")')
    program.run('gm.retry("r", items=["b", "c"])', code=KILLED)
    said = program.run(
        'report = gm.resume("r"); print(report.collect(), [result.job_id for result in report.failures()])'
    )
    assert said == "['a', 'b', 'c'] ['d']"
    assert [program.notes.count(name) for name in "ad"] == [1, 1]
    assert program.notes.count("c") == 3


def test_the_retry_of_a_run_that_another_has_is_refused(journal):
    work = weak_run(journal)
    ledger = journal.store.take("r")
    with pytest.raises(gm.OwnedError):
        gm.retry("r", graph=work, journal=journal)
    ledger.release()
    work.heal()
    assert set(statuses(gm.retry("r", graph=work, journal=journal)).values()) == {"succeeded"}


def test_where_the_function_is_not_found_again_the_remedy_is_one_that_retries(journal):
    def fail(item):
        raise gm.Permanent("no")

    gm.batch(fail, [{"id": "a"}], run_id="r", journal=journal)
    with pytest.raises(gm.UsageError, match=r"call gm\.retry\('r', graph=function\) in the program that has it"):
        gm.retry("r", journal=journal)
    assert gm.retry("r", graph=fail, journal=journal).done_now == 1
