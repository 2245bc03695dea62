"""A recorded batch: what is written down, and that nothing is shown before it is."""

import asyncio
import dataclasses
import json
import threading
from contextlib import closing

import pytest

import graphmill as gm
from graphmill.journal.records import AttemptRow, Request
from support.driving import Peak
from support.recording import PROMPT, Gate, Program, reached, statuses, watched
from support.remains import HANG_S, nothing_left, wait_until


async def double(item):
    if item == 3:
        raise gm.Permanent("no 3")
    return {"n": item, "twice": item * 2}


def test_a_batch_is_recorded_when_it_is_given_a_run_id_or_a_journal_and_else_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert gm.batch(double, range(3)).run_id is None
    assert list(tmp_path.iterdir()) == []
    assert gm.batch(double, range(3), run_id="mine").run_id == "mine"
    named = gm.batch(double, range(3), journal="other.db").run_id
    with closing(gm.open_journal()) as journal:
        assert [run.id for run in journal.archive.runs()] == ["mine"]
    with closing(gm.open_journal("other.db")) as journal:
        assert [run.id for run in journal.archive.runs()] == [named]


def test_the_report_reads_from_the_store_after_the_batch_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = gm.batch(double, range(5), run_id="a")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert [output["twice"] for output in report.collect()] == [0, 2, 4, 8]
    assert report.merge(key="n")[4] == {"n": 4, "twice": 8}
    assert report.reduce(lambda total, output: total + output["n"], 0) == 7
    assert [result.job_id for result in report.failures()] == [report.errors[0].job_id]
    assert len(report.export("out.jsonl").read_text().splitlines()) == 5


def test_a_journal_in_memory_is_read_by_its_report_too():
    assert gm.batch(double, [1], journal="memory:").collect() == [{"n": 1, "twice": 2}]


def test_results_are_read_by_another_process(tmp_path):
    gm.batch(double, range(5), run_id="a", journal=tmp_path / "journal.db")
    program = Program(tmp_path, "async def work(item): return item")
    said = program.run("""
        from graphmill.journal.records import EVERYTHING
        archive = gm.open_journal().archive
        print([entry.result.output and entry.result.output["twice"] for entry in archive.entries(archive.find("a"), EVERYTHING)])
    """)
    assert said == "[0, 2, 4, None, 8]"


def test_the_figures_are_those_of_a_run_that_is_not_recorded(tmp_path):
    def figures(**recorded):
        report = gm.batch(flaky(), range(30), policy=PROMPT, **recorded)
        found = report.statistics
        counts = [found.total, found.done, found.succeeded, found.failed, found.retries, found.success_rate]
        return report.summary(), counts, [(group.kind, group.count) for group in found.errors], report.error_lines()[0].split()[1:]

    def flaky():
        seen = set()

        async def work(item):
            if item % 10 == 3:
                raise gm.Permanent("no")
            if item % 5 == 0 and item not in seen:
                seen.add(item)
                raise gm.Transient("once")
            return item

        return work

    assert figures(journal=tmp_path / "runs.db") == figures(journal="memory:") == figures()


def test_nothing_is_shown_before_it_is_committed(tmp_path):
    gate, shown, readings = Gate(), [], []
    journal = watched(tmp_path / "runs.db", gate)

    async def main():
        executor = gm.BatchExecutor(
            on_result=lambda _, result: shown.append(result.job_id), observers=[lambda event: readings.append(type(event))], journal=journal
        )
        async with executor.start([gm.Job(id="a", graph=double, input=1)], run_id="r") as run:
            await reached(gate.reached)
            before = run.progress().done, list(shown), gm.JobFinished in readings, run.statistics().done
            gate.open()
            return before, [result.job_id async for result in run.results()]

    before, results = asyncio.run(main())
    assert before == (0, [], False, 0)
    assert (shown, results) == (["a"], ["a"])
    journal.close()


def test_running_and_uncommitted_are_never_more_than_twice_the_concurrency(tmp_path):
    gate, calls, peak = Gate(), [], Peak()
    journal = watched(tmp_path / "runs.db", gate)

    async def work(item):
        with peak:
            calls.append(item)
            await asyncio.sleep(0)
        return item

    async def main():
        async with asyncio.TaskGroup() as group:
            batch = group.create_task(gm.abatch(work, range(50), run_id="r", journal=journal, concurrency=3))
            await asyncio.to_thread(wait_until, lambda: len(calls) >= 6)
            for _ in range(200):  # turns in which more would start if it might
                await asyncio.sleep(0)
            held = len(calls)
            gate.open()
        return held, batch.result()

    held, report = asyncio.run(main())
    assert held == 6
    assert (report.statistics.succeeded, peak.highest <= 3) == (50, True)
    journal.close()


def test_an_unsafe_item_begins_once_that_is_committed_and_holds_its_slot_until_its_result_is(tmp_path):
    gate, log = Gate(), []

    def append(rows):
        log.extend("intent" for row in rows if isinstance(row, AttemptRow) and row.kind is None)
        gate(rows)

    journal = watched(tmp_path / "runs.db", append)

    async def work(item):
        log.append("call")
        return item

    async def main():
        async with asyncio.TaskGroup() as group:
            batch = group.create_task(gm.abatch(work, range(3), journal=journal, run_id="r", concurrency=1, effect="unsafe"))
            await reached(gate.reached)
            for _ in range(200):
                await asyncio.sleep(0)
            held = list(log)
            gate.open()
        return held, batch.result()

    held, report = asyncio.run(main())
    assert held == ["intent", "call"]
    assert log == ["intent", "call"] * 3
    assert report.statistics.succeeded == 3
    journal.close()


class Model:
    def model_dump(self, mode):
        return {"mode": mode}


@dataclasses.dataclass
class Answer:
    text: str


@pytest.mark.parametrize(("output", "stored"), [(Answer("yes"), {"text": "yes"}), (Model(), {"mode": "json"}), ({3, 1, 2}, [1, 2, 3])])
def test_outputs_are_stored_as_plain_data(tmp_path, output, stored):
    async def work(_):
        return output

    assert gm.batch(work, [1], journal=tmp_path / "runs.db").collect() == [stored]


def test_an_output_that_json_can_not_hold_fails_for_good_and_names_the_type(tmp_path):
    async def work(_):
        return object()

    (result,) = gm.batch(work, [1], journal=tmp_path / "runs.db", policy=PROMPT).results()
    assert (result.status, result.error.kind, result.attempts) == ("failed", "permanent", 1)
    assert "object is not a JSON type" in result.error.message


def test_what_runs_in_worker_processes_is_recorded(tmp_path):
    program = Program(tmp_path, "def work(item): return {item}")
    assert program.run('print(gm.batch(work, [1, 2], run_id="a", isolation="process").collect())') == "[[1], [2]]"


def test_the_manifest_holds_what_the_run_was_begun_with_and_no_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", "hunter2-secret")
    items, path = [{"key": "a"}, {"key": "b"}], tmp_path / "runs.db"
    gm.batch(double_key, items, run_id="r", journal=path, id_field="key", version="7", notes={"seed": 5}, policy=gm.Policy(timeout_s=9))
    with closing(gm.open_journal(path)) as journal:
        manifest = journal.archive.find("r").manifest
    assert manifest["options"] == {"id_field": "key", "seed": 5, "effect": "repeatable", "version": "7"}
    assert manifest["policy"]["timeout_s"] == 9
    assert manifest["seed"] == 5
    assert manifest["graph"]["name"] == "double_key"
    assert manifest["input"]["items"] == 2
    assert {"graphmill", "python"} <= set(manifest["versions"])
    assert "hunter2-secret" not in json.dumps(manifest)


async def double_key(item):
    return item["key"] * 2


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
        with pytest.raises(gm.OwnedError, match="under way"):
            gm_batch_elsewhere(work, program.journal)
        said = program.run("""
            try:
                gm.batch(work, [1], run_id="r")
            except gm.OwnedError as error:
                print(error)
        """)
        assert "run r is under way in process" in said
        go.set()

    assert gm.batch(work, [1], run_id="r", journal=program.journal, on_start=try_to_have_it).summary() == "1/1 items succeeded"
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
        assert not journal.archive.find("r").state.is_live
        assert gm.batch(double, [1], run_id="r", journal=journal).done_now == 0


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
        self.journal.archive.ask(self.journal.archive.find("r"), Request(word, argument))

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
        await it.until(lambda: it.journal.archive.find("r").state == "held")
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
    assert [record.message.partition(" was")[0] for record in caplog.records] == ["a limit of 0", "a limit of many", "a limit of 50"]


def test_one_item_of_a_live_run_is_cancelled_through_the_store_and_stays_so(controlled):
    async def script(it):
        it.ask("cancel_item", "c")
        it.ask("cancel_item", "no such item")
        await it.until(lambda: it.run.progress().cancelled == 1)
        it.let_all_go()

    report = asyncio.run(controlled.drive(script))
    assert statuses(report) == {"a": "succeeded", "b": "succeeded", "c": "cancelled", "d": "succeeded", "e": "succeeded"}
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
