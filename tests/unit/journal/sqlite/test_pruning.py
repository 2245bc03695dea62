import os
import threading

import pytest

from graphmill.core.errors import UnknownRunError
from graphmill.core.json import canonical, item_key
from graphmill.core.result import Kind
from graphmill.journal.records import (
    EVERYTHING,
    FINISHED,
    AttemptRow,
    OrphansRow,
    RunRow,
    StepRow,
    SuspectRow,
    WantedRow,
)
from graphmill.journal.sqlite import store as store_module
from graphmill.journal.sqlite.store import SqliteStore
from support.journal_process import journal_process
from support.journal_rows import CONTENT, results


def test_what_dead_processes_have_left_beside_the_store_is_removed_when_a_run_is_next_taken(store, path):
    local = path.parent / "runs.db-local"
    for name, bytes_ in (("empty", bytes(64)), ("killed", b"k" * 16 + bytes(48)), ("finished", b"k" * 16)):
        ledger = store.take(store.create(name, {}).id)
        (local / name / "flight-1").write_bytes(bytes_)
        if name == "finished":
            ledger.append([RunRow(status=FINISHED)])
        ledger.release()
    ledger = store.take(store.create("next", {}).id)
    assert sorted(folder.name for folder in local.iterdir()) == ["killed", "next"]
    ledger.release()
    store.take("killed").release()
    assert [folder.name for folder in local.iterdir()] == ["killed"]


def fill(store, run_id, count=3000):
    ledger = store.take(store.create(run_id, {"big": "x" * 5000}).id)
    ledger.append([*results(count, output=canonical(os.urandom(500).hex())), OrphansRow([item_key("item-1")])])
    keys = [item_key(f"item-{number}") for number in range(1100)]
    ledger.append([StepRow(key, 1, "a", CONTENT, 1, 0.5, b"1", None) for key in keys])
    ledger.append([AttemptRow(key, 1, "", 1, Kind.CRASH, b"{}") for key in keys])
    ledger.append([row for key in keys for row in (WantedRow(key, 2), SuspectRow(key, 1, 0))])
    (ledger.folder / "mine").write_text("x")
    ledger.release()
    return ledger.run


def test_a_pruned_run_leaves_nothing_and_its_space_is_given_back(store, path):
    keep = fill(store, "keep")
    tables = (
        "runs",
        "manifests",
        "results",
        "steps",
        "attempts",
        "wanted",
        "suspects",
        "orphans",
        "requests",
        "leftovers",
    )

    def counts():
        with store._database.reading() as connection:
            return [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]

    before, size = counts(), path.stat().st_size
    runs = [fill(store, f"r{number}") for number in range(3)]
    grown = path.stat().st_size
    freed = store.prune(runs)
    assert counts() == before
    assert path.stat().st_size < size * 1.2 < grown
    assert freed > 0.8 * (grown - size)
    assert not (path.parent / "runs.db-local" / "r1").exists()
    assert len(list(store.archive.entries(keep, EVERYTHING))) == 3000
    store.take("keep").release()


def test_a_prune_stops_neither_a_reader_nor_a_writer(store):
    old = [fill(store, f"old{number}") for number in range(3)]
    live = store.take(store.create("live", {}).id)
    live.append(results(500))
    reading = store.archive.entries(live.run, EVERYTHING)
    assert next(reading).result.position == 0
    failures, ended = [], threading.Event()

    def write():
        first = 500
        try:
            while not ended.is_set() or first < 1000:
                live.append(results(10, first=first))
                first += 10
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    def read():
        try:
            while not ended.is_set():
                rows = sum(1 for _ in store.archive.entries(live.run, EVERYTHING))
                assert rows >= 500
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=write), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for run in old:
        store.prune([run])
    ended.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(list(reading)) == 499
    assert [run.id for run in store.archive.runs()] == ["live"]
    live.release()
    store.take("live").release()


def test_who_reads_a_run_that_is_pruned_meanwhile_is_told_so(store):
    run = fill(store, "r")
    reading = store.archive.entries(run, EVERYTHING)
    next(reading)
    store.prune([run])
    fill(store, "other")
    with pytest.raises(UnknownRunError, match="r: it was pruned"):
        list(reading)


def test_what_a_killed_prune_left_is_swept_by_the_next(store, path):
    run = fill(store, "r")
    script = """
from graphmill.journal.sqlite import store as store_module
def sweep(database):
    os.kill(os.getpid(), signal.SIGKILL)
import graphmill.journal.sqlite.store as module
module.sweep = sweep
store = SqliteStore(path)
store.prune(store.archive.runs())
"""
    with journal_process(path, script) as other:
        assert other.ended() == -9
    assert store.archive.runs() == []
    assert store.prune([]) > 3000 * 500
    assert run.number == 1
    assert store.create("r", {}).number == 2


def test_a_prune_deletes_in_small_steps(store, path, monkeypatch):
    run = fill(store, "r")
    begun = []
    writing = store_module.writing
    monkeypatch.setattr(
        store_module, "writing", lambda connection, busy_s: begun.append(1) or writing(connection, busy_s=busy_s)
    )
    twin = SqliteStore(path)
    twin.prune([run])
    twin.close()
    assert len(begun) >= 3000 // store_module._STEP_ROWS


def test_an_attempt_to_prune_a_run_that_is_gone_frees_nothing(store):
    run = store.create("r", {})
    store.prune([run])
    assert store.prune([run]) == 0
