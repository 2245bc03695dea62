import os
import shutil
import sqlite3
from contextlib import closing

import pytest

from graphmill.core.errors import DamagedError, JournalError
from graphmill.core.json import canonical
from graphmill.journal.records import EVERYTHING, FINISHED, HELD, RunRow, RunState, WantedRow
from graphmill.journal.sqlite.store import SqliteStore
from support.journal_process import journal_process
from support.journal_rows import result, results
from support.remains import HANG_S


def recorded(store, run):
    return [entry.result.job_id for entry in store.archive.entries(run, EVERYTHING)]


def big(number):
    return result(f"big-{number}", number, output=canonical(os.urandom(200_000).hex()))


def test_a_full_disk_is_named_nothing_is_half_recorded_and_it_goes_on_when_there_is_space(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_000_000))
    store = SqliteStore(small_disk / "runs.db")
    ledger = store.take(store.create("r", {}).id)
    done = []
    with pytest.raises(JournalError, match=r"no space left for the journal .*runs\.db .*free some, then resume"):
        for number in range(100):
            ledger.append([big(number), WantedRow(big(number).key, 2)])
            done.append(f"big-{number}")
    assert recorded(store, ledger.run) == done
    assert store.archive.find("r").rows == len(done)
    with pytest.raises(JournalError):
        ledger.append([big(999)])
    ballast.unlink()
    ledger.append([big(1000)])
    assert recorded(store, ledger.run) == [*done, "big-1000"]
    ledger.release()
    store.close()


def test_a_disk_that_is_full_from_the_start_is_named(small_disk):
    with pytest.raises(OSError, match="No space"):
        (small_disk / "ballast").write_bytes(bytes(3_000_000))
    with pytest.raises(JournalError, match="no space left"):
        SqliteStore(small_disk / "runs.db")


def test_a_file_that_may_not_grow_stops_the_run_and_keeps_what_was_recorded(path):
    script = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
store = SqliteStore(path)
ledger = store.take(store.create("r", {}).id)
count = 0
try:
    while True:
        ledger.append([result(str(count), count, output=b'"' + os.urandom(20_000).hex().encode() + b'"')])
        count += 1
except Exception as error:
    say(count, type(error).__name__, error)
"""
    with journal_process(path, script) as other:
        count, kind, *_ = other.heard().split()
        assert other.ended() == 0
    assert kind == "JournalError"
    store = SqliteStore(path)
    ledger = store.take("r")
    assert len(recorded(store, ledger.run)) == int(count) > 3
    ledger.append([result("more", 999)])
    ledger.release()
    store.close()


@pytest.mark.parametrize("name", ["runs.db", "runs.db-wal", "runs.db-shm"])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_that_is_deleted_or_replaced_under_the_run_stops_it(store, ledger, path, name, replaced):
    ledger.append(results(3))
    file = path.with_name(name)
    copy = shutil.copy(file, path.with_name("copy"))
    file.unlink()
    if replaced:
        copy.rename(file)
    with pytest.raises(JournalError, match="deleted or replaced"):
        ledger.requests()  # as is done twice a second


def test_a_store_that_is_deleted_or_replaced_just_before_the_end_does_not_end_well(store, ledger, path):
    ledger.append(results(3))
    log = path.with_name("runs.db-wal")
    copy = shutil.copy(log, path.with_name("copy"))
    log.unlink()
    copy.rename(log)
    with pytest.raises(JournalError, match="deleted or replaced"):
        ledger.append([RunRow(status=FINISHED)])


def test_a_log_that_is_deleted_is_missed_at_the_next_commit(store, ledger, path):
    ledger.append(results(3))
    path.with_name("runs.db-wal").unlink()
    with pytest.raises(JournalError, match="deleted or replaced"):
        ledger.append(results(3, first=3))


def test_a_store_whose_folder_is_deleted_under_the_run_stops_it(store, ledger, path):
    ledger.append(results(3))
    shutil.rmtree(path.parent)
    with pytest.raises(JournalError, match="deleted or replaced"):
        ledger.append(results(3, first=3))
    with pytest.raises(JournalError):
        store.create("other", {})
    assert not path.exists()


def test_a_log_that_is_cut_under_the_run_stops_it(store, ledger, path):
    ledger.append(results(30))
    os.truncate(f"{path}-wal", 0)
    with pytest.raises(JournalError):
        for first in range(30, 90, 10):
            ledger.append(results(10, first=first))
            ledger.requests()


def test_a_log_that_sqlite_itself_has_emptied_stops_nothing(store, ledger, path):
    ledger.append(results(30))
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    assert path.with_name("runs.db-wal").stat().st_size == 0
    ledger.requests()
    ledger.append(results(10, first=30))
    ledger.requests()
    assert len(recorded(store, ledger.run)) == 40


def test_a_database_that_is_cut_under_the_run_is_damage_for_whoever_reads_it(store, path):
    ledger = store.take(store.create("r", {}).id)
    ledger.append(results(2000))
    ledger.release()
    store.close()
    store = SqliteStore(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(JournalError):
        recorded(store, ledger.run)
    with pytest.raises(JournalError):
        store.take("r")
    store.close()


def test_a_database_that_is_busy_for_too_long_is_named_and_goes_on_later(path):
    store = SqliteStore(path, busy_s=0.1)
    ledger = store.take(store.create("r", {}).id)
    ledger.append(results(3))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match=r"another process has locked .* for too long"):
            ledger.append(results(3, first=3))
        assert len(recorded(store, ledger.run)) == 3
        other.execute("COMMIT")
    ledger.append(results(3, first=3))
    assert len(recorded(store, ledger.run)) == 6
    ledger.release()
    store.close()


def test_a_database_that_is_busy_for_a_while_is_waited_for(path):
    store = SqliteStore(path, busy_s=HANG_S)
    ledger = store.take(store.create("r", {}).id)
    script = """
import sqlite3
connection = sqlite3.connect(path, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
say("held")
wait()
connection.execute("COMMIT")
connection.close()
"""
    with journal_process(path, script) as other:
        other.heard()
        other.go_on()
        ledger.append(results(3))
    assert len(recorded(store, ledger.run)) == 3
    ledger.release()
    store.close()


@pytest.mark.parametrize("bad", [{"position": 2**70}, {"key": "text"}, {"status": "odd"}, {"output": 1.5}])
def test_a_row_that_can_not_be_stored_leaves_nothing_of_its_append(store, ledger, bad):
    with pytest.raises(Exception):  # noqa: B017, PT011
        ledger.append([RunRow(status=HELD), result("a"), result("b", 1, **bad)])
    assert recorded(store, ledger.run) == []
    assert store.archive.find("r").state is RunState.RUNNING
    ledger.append([result("a")])
    assert recorded(store, ledger.run) == ["a"]


def test_a_reader_that_stops_in_the_middle_holds_nothing(store, ledger, path):
    ledger.append(results(200))
    reading = store.archive.entries(ledger.run, EVERYTHING)
    next(reading)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    assert len(list(reading)) == 199


def test_a_missing_row_is_damage_that_take_notices(store, ledger, path):
    ledger.append(results(200))
    ledger.release()
    with closing(sqlite3.connect(path)) as other:
        other.execute("DELETE FROM results WHERE row = 77")
        other.commit()
    with pytest.raises(DamagedError, match=r"199, where 200 were written"):
        store.take("r")
    with pytest.raises(DamagedError, match=r"199, where 200 were written"):
        recorded(store, ledger.run)
    assert store.archive.find("r").is_interrupted
