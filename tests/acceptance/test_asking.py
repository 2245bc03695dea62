"""What is asked of a live run through its store: pause, unpause, cancel, limit."""

import asyncio

import pytest

import graphmill as gm
from graphmill.journal.records import HELD, RunRequest
from support.recording import statuses
from support.remains import wait_until


class Controlled:
    """A run of five items, one at a time, each waiting for its own event; what is asked of it goes through the store."""

    def __init__(self, path):
        self.journal = gm.open_journal(path)
        self.called, self.go = [], {item: asyncio.Event() for item in "abcde"}
        self.run = None

    async def work(self, item):
        self.called.append(item["id"])
        await self.go[item["id"]].wait()
        return item["id"]

    def ask(self, word, argument=""):
        self.journal.archive.ask(self.journal.archive.find("r"), RunRequest(word, argument))

    async def until(self, condition):
        await asyncio.to_thread(wait_until, condition)

    async def drive(self, script, **policy):
        def keep(run):
            self.run = run

        items = [{"id": item} for item in "abcde"]
        async with asyncio.TaskGroup() as group:
            options = {"run_id": "r", "journal": self.journal, "policy": gm.Policy(concurrency=1, **policy)}
            batch = group.create_task(gm.abatch(self.work, items, on_start=keep, **options))
            await self.until(lambda: self.called == ["a"])
            await script(self)
        return batch.result()

    def let_all_go(self):
        for event in self.go.values():
            event.set()


@pytest.fixture
def controlled(tmp_path):
    found = Controlled(tmp_path / "runs.db")
    yield found
    found.journal.close()


def test_a_live_run_is_paused_and_unpaused_through_the_store(controlled):
    async def script(it):
        it.ask("pause")
        await it.until(lambda: it.run.progress().held == "paused")
        await it.until(lambda: it.journal.archive.find("r").status == HELD)
        it.let_all_go()
        await it.until(lambda: it.run.progress().done == 1)
        assert it.called == ["a"]
        it.ask("unpause")

    assert asyncio.run(controlled.drive(script)).statistics.succeeded == 5


def test_a_live_run_s_limit_is_changed_and_noted_through_the_store_and_a_senseless_one_is_refused(controlled, caplog):
    async def script(it):
        for senseless in ("0", "many", "50"):
            it.ask("limit", senseless)
        it.ask("limit", "3")
        await it.until(lambda: it.called == ["a", "b", "c"])
        await it.until(lambda: it.journal.archive.find("r").manifest["policy"]["concurrency"] == 3)
        it.let_all_go()

    assert asyncio.run(controlled.drive(script, window=5)).statistics.succeeded == 5
    assert ["the limit to" in record.message for record in caplog.records] == [True] * 3


def test_an_item_of_a_live_run_is_cancelled_by_its_row_or_the_beginning_of_its_id(tmp_path):
    items = [{"id": item} for item in ("first", "2nd", "third", "1")]
    go, journal = asyncio.Event(), gm.open_journal(tmp_path / "runs.db")

    async def work(_):
        await go.wait()

    async def drive(*names):
        async with asyncio.TaskGroup() as group:
            runs = []
            batch = group.create_task(gm.abatch(work, items, run_id="r", journal=journal, on_start=runs.append))
            await asyncio.to_thread(wait_until, lambda: runs and runs[0].progress().running == 4)
            for name in names:
                journal.archive.ask(journal.archive.find("r"), RunRequest("cancel_item", name))
            await asyncio.to_thread(wait_until, lambda: runs[0].progress().cancelled == 3)
            go.set()
        return batch.result()

    report = asyncio.run(drive("1", "2", "thi"))  # an id, a row, and a beginning
    assert statuses(report) == {"first": "succeeded", "2nd": "cancelled", "third": "cancelled", "1": "cancelled"}
    journal.close()


def test_one_item_of_a_live_run_is_cancelled_through_the_store_and_stays_so(controlled, caplog):
    async def script(it):
        it.ask("cancel_item", "c")
        it.ask("cancel_item", "no such item")
        await it.until(lambda: it.run.progress().cancelled == 1)
        it.let_all_go()

    report = asyncio.run(controlled.drive(script))
    assert ["no such item" in record.message for record in caplog.records] == [True]
    assert statuses(report) == {
        "a": "succeeded",
        "b": "succeeded",
        "c": "cancelled",
        "d": "succeeded",
        "e": "succeeded",
    }
    again = gm.batch(controlled.work, [{"id": item} for item in "abcde"], run_id="r", journal=controlled.journal)
    assert (again.done_now, again.statistics.cancelled) == (0, 1)


def test_a_live_run_is_cancelled_through_the_store_and_what_it_leaves_is_resumed(controlled):
    async def script(it):
        it.ask("cancel")

    report = asyncio.run(controlled.drive(script))
    assert (report.stopped, list(report.results())) == ("cancelled", [])
    assert controlled.journal.archive.find("r").state == "cancelled"
    controlled.go = {item: asyncio.Event() for item in "abcde"}
    controlled.let_all_go()
    items = [{"id": item} for item in "abcde"]
    assert gm.batch(controlled.work, items, run_id="r", journal=controlled.journal).summary() == "5/5 items succeeded"
