"""G5, G7: a journal that fails, and a run that somebody else has."""

import asyncio
import threading
from contextlib import closing

import pytest

import graphmill as gm
from support.recording import Program, Spied, reached, watched
from support.remains import HANG_S, nothing_left


async def double(item):
    return item * 2


def broken_at(count):
    """Break at the so-many-th row of a result."""
    seen = 0

    def append(rows):
        nonlocal seen
        seen += sum(type(row).__name__ == "ResultRow" for row in rows)
        if seen >= count:
            raise gm.JournalError("no space left")

    return append


def test_a_journal_that_fails_ends_the_batch_at_once_with_its_report_and_resume_completes(tmp_path):
    shown, items = [], [{"id": number} for number in range(12)]

    async def work(item):
        return item["id"]

    journal = watched(tmp_path / "runs.db", broken_at(5))
    with pytest.raises(gm.JournalError, match="no space left") as caught:
        gm.batch(work, items, run_id="r", journal=journal, concurrency=2, on_result=lambda job, _: shown.append(job.id))
    journal.close()
    assert caught.value.report.statistics.succeeded == len(shown) < 5
    with closing(gm.open_journal(tmp_path / "runs.db")) as whole:
        assert whole.archive.find("r").rows == len(shown)
        assert gm.batch(work, items, run_id="r", journal=whole).summary() == "12/12 items succeeded"


def test_functions_under_way_are_cancelled_when_the_journal_fails(tmp_path):
    cancelled, under_way = [], asyncio.Event()

    async def work(item):
        if item == "quick":
            await under_way.wait()
            return item
        try:
            under_way.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(item)
            raise

    journal = watched(tmp_path / "runs.db", broken_at(1))
    with pytest.raises(gm.JournalError), nothing_left():
        gm.batch(work, ["quick", "slow"], run_id="r", journal=journal)
    assert cancelled == ["slow"]
    journal.close()


def test_a_run_has_one_owner_in_a_process_and_beyond(tmp_path):
    program = Program(tmp_path, "async def work(item): return item")
    go = threading.Event()

    def work(item):
        assert go.wait(HANG_S)
        return item

    def try_to_have_it(_run):
        with pytest.raises(gm.OwnedError, match="is running"):
            gm_batch_elsewhere(work, program.journal)
        said = program.run("""
            try:
                gm.batch(work, [1], run_id="r")
            except gm.OwnedError as error:
                print(error)
        """)
        assert "run r is running in process" in said
        go.set()

    assert (
        gm.batch(work, [1], run_id="r", journal=program.journal, on_start=try_to_have_it).summary()
        == "1/1 items succeeded"
    )
    assert gm.batch(work, [1], run_id="r", journal=program.journal).done_now == 0


def gm_batch_elsewhere(work, path):
    """Run a batch in a thread: here a loop is running."""
    errors = []

    def run():
        try:
            gm.batch(work, [1], run_id="r", journal=path)
        except gm.GraphmillError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(HANG_S)
    raise errors[0]


def test_a_run_that_could_not_be_begun_is_free(tmp_path):
    path = tmp_path / "runs.db"
    gm.batch(double, [1], run_id="r", journal=path)
    with closing(gm.open_journal(path)) as journal:
        for _ in range(2):
            with pytest.raises(gm.ChangedError):
                gm.batch(double, [1], run_id="r", journal=journal, version="2")
            with pytest.raises(gm.UsageError, match="no failed items"):
                gm.retry("r", graph=double, journal=journal)
        assert not journal.archive.find("r").is_live
        assert gm.batch(double, [1], run_id="r", journal=journal).done_now == 0


def test_a_batch_that_is_cancelled_while_it_takes_hold_of_its_run_lets_it_go(tmp_path):
    store = gm.open_journal(tmp_path / "runs.db").store
    taking, go = threading.Event(), threading.Event()

    def take(run_id):
        taking.set()
        assert go.wait(HANG_S)
        return store.take(run_id)

    async def main():
        journal = gm.Journal(Spied(store, take=take))
        async with asyncio.TaskGroup() as group:
            batch = group.create_task(gm.abatch(double, [1], run_id="r", journal=journal))
            await reached(taking)
            batch.cancel()
            await asyncio.sleep(0)
            go.set()
        assert batch.cancelled()
        return await gm.abatch(double, [1], run_id="r", journal=journal)

    with closing(store):
        assert asyncio.run(main()).summary() == "1/1 items succeeded"
