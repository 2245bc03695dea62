import os
import signal
import threading
import time

import pytest

from graphmill.core.errors import OwnedError
from graphmill.journal.records import EVERYTHING, RunRequest, RunState
from graphmill.journal.sqlite.store import SqliteStore
from support.journal_process import journal_process
from support.journal_rows import result, results
from support.remains import HANG_S

TAKE = """
store = SqliteStore(path)
ledger = store.take("r")
ledger.append(results(5))
say(os.getpid())
wait()
"""


def test_a_run_of_another_process_is_refused_with_its_owner_and_the_remedy(store, path):
    store.create("r", {})
    with journal_process(path, TAKE) as other:
        pid = other.heard()
        run = store.archive.find("r")
        assert (run.state, str(run.owner.pid)) == (RunState.RUNNING, pid)
        with pytest.raises(OwnedError, match=rf"process {pid} on \S+ since .*graphmill cancel r"):
            store.take("r")
        assert store.prune([run]) == 0


def test_the_run_of_a_killed_process_is_interrupted_and_can_be_taken_at_once(store, path):
    store.create("r", {})
    with journal_process(path, TAKE) as other:
        other.heard()
        other.kill()
    assert store.archive.find("r").is_interrupted
    ledger = store.take("r")
    assert (ledger.run.rows, ledger.run.is_interrupted) == (5, True)
    ledger.append(results(5, first=5))
    assert len(list(store.archive.entries(ledger.run, EVERYTHING))) == 10
    ledger.release()


def test_the_run_of_a_process_that_ended_without_a_release_can_be_taken(store, path):
    store.create("r", {})
    with journal_process(path, TAKE) as other:
        other.heard()
        other.go_on()
        other.ended()
    store.take("r").release()


def test_many_processes_may_own_a_run_each_of_one_store(store, path):
    for number in range(3):
        store.create(f"r{number}", {})
    mine = store.take("r0")
    script = TAKE.replace('"r"', '"r1"')
    with journal_process(path, script) as first, journal_process(path, script.replace("r1", "r2")) as second:
        first.heard(), second.heard()
        mine.append(results(7))
        assert [run.rows for run in store.archive.runs()] == [7, 5, 5]
        assert [run.state for run in store.archive.runs()] == [RunState.RUNNING] * 3
        first.kill()
        assert [run.is_interrupted for run in store.archive.runs()] == [False, True, False]
    mine.release()


def test_two_stores_of_one_file_in_one_process_share_their_owners(store, path, tmp_path, ledger):
    (tmp_path / "link").symlink_to(path)
    for name in (path, tmp_path / "link"):
        twin = SqliteStore(name)
        assert twin.archive.find("r").state is RunState.RUNNING
        with pytest.raises(OwnedError):
            twin.take("r")
        twin.close()  # drops no lock of the other
    with journal_process(path, 'say(SqliteStore(path).archive.find("r").state)') as other:
        assert other.heard() == "running"


def test_a_run_outlives_no_store(store, path):
    store.create("r", {})
    twin = SqliteStore(path)
    ledger = twin.take("r")
    twin.close()
    ledger.release()
    assert store.archive.find("r").is_interrupted
    store.take("r").release()


def test_a_forked_child_owns_nothing_and_takes_nothing_from_its_parent(store, ledger, path):
    ledger.append([result("a")])
    store.archive.runs()  # a connection that the child inherits
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for call in (
            lambda: ledger.append([result("b", 1)]),
            lambda: store.take("r"),
            ledger.release,
            lambda: store.archive.runs()[0].state,
        ):
            try:
                said.append(str(call()))
            except OwnedError:
                said.append("owned")
        os.write(writing, ",".join(said).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    assert said == "owned,owned,None,running"
    ledger.append([result("c", 2)])
    with journal_process(path, 'say(SqliteStore(path).archive.find("r").state)') as other:
        assert other.heard() == "running"
    assert [entry.result.job_id for entry in store.archive.entries(ledger.run, EVERYTHING)] == ["a", "c"]


def test_an_owner_whose_lock_was_lost_is_fenced_by_the_next(store, ledger):
    ledger.append([result("a")])
    store._database.owners.release(ledger.run.number)
    later = store.take("r")
    with pytest.raises(OwnedError):
        ledger.append([result("b", 1), result("c", 2)])
    later.append([result("d", 3)])
    assert [entry.result.job_id for entry in store.archive.entries(later.run, EVERYTHING)] == ["a", "d"]
    later.release()


def test_a_request_gets_its_turn_beside_a_run_that_commits_without_a_pause(store, ledger):
    asked = threading.Event()
    latest = time.monotonic() + HANG_S

    def ask():
        for number in range(5):
            store.archive.ask(ledger.run, RunRequest("limit", str(number)))
        asked.set()

    thread = threading.Thread(target=ask)
    thread.start()
    position = 0
    while not asked.is_set():
        assert time.monotonic() < latest
        ledger.append([result(f"item-{position}", position)])
        position += 1
    thread.join()
    assert [request.argument for request in ledger.requests()] == ["0", "1", "2", "3", "4"]


def test_a_stopped_owner_still_owns(store, path):
    store.create("r", {})
    with journal_process(path, TAKE) as other:
        other.heard()
        other.process.send_signal(signal.SIGSTOP)
        with pytest.raises(OwnedError):
            store.take("r")
        other.kill()
    store.take("r").release()
