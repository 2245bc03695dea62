"""A recorded batch: what is written down, and that nothing is shown before it is."""

import asyncio
import dataclasses
import json
from contextlib import closing

import pytest

import graphmill as gm
from graphmill.journal.records import AttemptRow, ResultRow
from support.driving import Peak
from support.recording import PROMPT, Gate, Program, reached, watched
from support.remains import wait_until


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
        return (
            report.summary(),
            counts,
            [(group.kind, group.count) for group in found.errors],
            report.error_lines()[0].split()[1:],
        )

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
            on_result=lambda _, result: shown.append(result.job_id),
            observers=[lambda event: readings.append(type(event))],
            journal=journal,
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


@pytest.fixture
def gathers_for_ever(monkeypatch):
    for place in ("graphmill.engine.results.results", "graphmill.journal.writer"):
        monkeypatch.setattr(f"{place}.GATHER_S", 3600.0)


@pytest.mark.usefixtures("gathers_for_ever")
def test_results_that_nobody_waits_for_are_committed_together_before_they_hold_anything_up(tmp_path):
    commits, waiting = [], {}
    journal = watched(
        tmp_path / "runs.db", lambda rows: commits.append(sum(isinstance(row, ResultRow) for row in rows))
    )

    async def work(item):
        waiting[item] = asyncio.Event()
        await waiting[item].wait()
        return item

    async def turns():
        for _ in range(200):
            await asyncio.sleep(0)
        return [count for count in commits if count]

    async def main():
        async with asyncio.TaskGroup() as group:
            batch = group.create_task(gm.abatch(work, range(30), run_id="r", journal=journal, concurrency=8))
            await asyncio.to_thread(wait_until, lambda: len(waiting) == 8)
            for item in (5, 0, 3, 2, 6):
                waiting[item].set()
            before = await turns()
            waiting[7].set()  # three quarters of what may run at once
            await asyncio.to_thread(wait_until, lambda: any(commits))
            after = await turns()
            while not batch.done():
                for event in list(waiting.values()):
                    event.set()
                await asyncio.sleep(0)
        return before, after, batch.result()

    before, after, report = asyncio.run(main())
    assert (before, after) == ([], [6])
    assert report.statistics.succeeded == 30
    journal.close()


@pytest.mark.usefixtures("gathers_for_ever")
def test_what_is_waited_for_is_committed_at_once(tmp_path):
    async def work(item):
        first = await gm.step(double, item)
        return (await gm.step(double, first["twice"]))["twice"]

    report = gm.batch(work, [1, 2], run_id="r", journal=tmp_path / "runs.db", concurrency=8)
    assert sorted(report.collect()) == [4, 8]


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
            batch = group.create_task(
                gm.abatch(work, range(3), journal=journal, run_id="r", concurrency=1, effect="unsafe")
            )
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


@pytest.mark.parametrize(
    ("output", "stored"), [(Answer("yes"), {"text": "yes"}), (Model(), {"mode": "json"}), ({3, 1, 2}, [1, 2, 3])]
)
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
    gm.batch(
        double_key,
        items,
        run_id="r",
        journal=path,
        id_field="key",
        version="7",
        notes={"seed": 5},
        policy=gm.Policy(timeout_s=9),
    )
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


def test_items_that_a_stop_left_over_are_pending_in_the_summary_as_in_the_journal(tmp_path):
    async def fail(item):
        raise gm.Permanent("no")

    policy = gm.Policy(concurrency=2, max_failures=1)
    report = gm.batch(fail, range(10), run_id="r", journal=tmp_path / "runs.db", policy=policy)
    assert (report.stopped, report.statistics.cancelled) == ("max_failures", 0)
    assert report.summary().endswith(f"{report.statistics.failed} failed, {10 - report.statistics.failed} pending")


def test_a_batch_that_is_cancelled_from_outside_is_paused_and_can_be_resumed(tmp_path):
    async def main():
        started = asyncio.Event()

        async def hang(item):
            started.set()
            await asyncio.sleep(3600)

        batch = asyncio.get_running_loop().create_task(gm.abatch(hang, ["a"], run_id="r", journal=tmp_path / "runs.db"))
        await started.wait()
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch

    asyncio.run(main())
    with closing(gm.open_journal(tmp_path / "runs.db")) as journal:
        run = journal.archive.find("r")
    assert (run.state, run.status.cause) == ("paused", "request")
