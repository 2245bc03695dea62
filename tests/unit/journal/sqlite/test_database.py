import os
import shutil
import sqlite3
import stat
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from graphmill.core.errors import DamagedError, JournalError
from graphmill.core.version import __version__
from graphmill.journal.records import EVERYTHING
from graphmill.journal.sqlite.database import VERSION
from graphmill.journal.sqlite.store import SqliteStore
from support.journal_process import journal_process
from support.journal_rows import results


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_folder_and_files_are_for_their_owner_alone_whatever_the_umask(path, umask):
    before = os.umask(umask)
    try:
        store = SqliteStore(path)
        ledger = store.take(store.create("r", {}).id)
        ledger.append(results(3))
    finally:
        os.umask(before)
    assert mode(path.parent) == 0o700
    assert {
        file.name: mode(file) for file in path.parent.iterdir() if file.is_file() and file.name != ".gitignore"
    } == {
        "runs.db": 0o600,
        "runs.db-wal": 0o600,
        "runs.db-shm": 0o600,
        "runs.db-owners": 0o600,
    }
    assert mode(ledger.folder) == 0o700
    ledger.release()
    store.close()
    assert (path.parent / ".gitignore").read_text() == "*\n"


def test_a_folder_that_is_there_is_left_as_it_is(tmp_path):
    tmp_path.chmod(0o755)
    SqliteStore(tmp_path / "runs.db").close()
    assert mode(tmp_path) == 0o755
    assert sorted(file.name for file in tmp_path.iterdir()) == ["runs.db", "runs.db-owners"]


@pytest.mark.parametrize(
    "name",
    [
        "with space.db",
        "ünïcödé 😀.db",
        "what?mode=memory",
        "a#b.db",
        "100%41.db",
        "file:x.db",
        ":memory:",
        "a&b=c",
        "new\nline.db",
        b"\xff.db",
    ],
)
def test_any_path_will_do(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(name)
    for place in (name, tmp_path / name / name):
        if place != name:
            shutil.rmtree(tmp_path)
            tmp_path.mkdir()
        store = SqliteStore(place)
        ledger = store.take(store.create("r", {}).id)
        ledger.append(results(3))
        ledger.release()
        store.close()
        assert Path(place).is_file()
        store = SqliteStore(place)
        assert len(list(store.archive.entries(store.archive.find("r"), EVERYTHING))) == 3
        store.close()


def test_an_opened_store_keeps_its_place_when_the_folder_of_the_process_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("here/runs.db")
    monkeypatch.chdir("/")
    store.create("r", {})
    store.close()
    assert (tmp_path / "here" / "runs.db").exists()


def test_nothing_but_the_store_is_left_when_it_is_closed(store, path, ledger):
    ledger.append(results(3))
    ledger.release()
    store.close()
    store.close()
    assert sorted(file.name for file in path.parent.iterdir()) == [".gitignore", "runs.db", "runs.db-owners"]
    with pytest.raises(JournalError, match="closed"):
        store.archive.runs()


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 6])
def test_a_store_of_another_version_is_refused_by_name(store, path, version):
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("UPDATE meta SET value = '9.8.7' WHERE name = 'graphmill'")
        connection.commit()
    with pytest.raises(
        JournalError, match=rf"format {version}, written by Graphmill 9\.8\.7.*{__version__} .*format {VERSION};"
    ):
        SqliteStore(path)


def test_the_database_of_somebody_else_is_refused_and_left_alone(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(JournalError, match="not a Graphmill journal"):
        SqliteStore(tmp_path / "other.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("PRAGMA user_version = 0")
    with pytest.raises(JournalError, match="not a Graphmill journal"):
        SqliteStore(tmp_path / "other.db")
    assert len((tmp_path / "other.db").read_bytes()) == len(before)


def test_what_is_no_database_is_refused(tmp_path):
    (tmp_path / "text.db").write_text("hello " * 1000)
    with pytest.raises(DamagedError, match=r"text\.db"):
        SqliteStore(tmp_path / "text.db")
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(JournalError, match=r"folder\.db"):
        SqliteStore(tmp_path / "folder.db")
    with pytest.raises(JournalError, match=r"text\.db"):
        SqliteStore(tmp_path / "text.db" / "runs.db")


def test_many_processes_may_make_a_store_at_the_same_time(path):
    script = 'say("ready")\nwait()\nstore = SqliteStore(path)\nsay(store.create(None, {}).id)\nstore.close()'
    processes = [journal_process(path, script) for _ in range(4)]
    with processes[0] as a, processes[1] as b, processes[2] as c, processes[3] as d:
        for other in (a, b, c, d):
            other.heard()
        for other in (a, b, c, d):
            other.go_on()
        ids = {other.heard() for other in (a, b, c, d)}
        assert [other.ended() for other in (a, b, c, d)] == [0] * 4
    store = SqliteStore(path)
    assert {run.id for run in store.archive.runs()} == ids
    assert len(ids) == 4
    store.close()


@pytest.mark.parametrize("fatal", [1, 2, 5, 9, 12, 15])
def test_a_process_killed_while_it_makes_the_store_leaves_one_that_can_be_made(path, fatal):
    script = f"""
from graphmill.journal.sqlite import database
split, count = database.split_script, 0
def counted(script):
    for statement in split(script):
        globals().update(count=count + 1)
        if count == {fatal}:
            say("dying")
            os.kill(os.getpid(), signal.SIGKILL)
        yield statement
database.split_script = counted
SqliteStore(path)
"""
    with journal_process(path, script) as other:
        assert other.heard() == "dying"
        assert other.ended() == -9
    store = SqliteStore(path)
    assert store.create("r", {}).number == 1
    store.close()


def test_a_store_that_may_not_be_written_says_so(store, path, small_disk):
    store.create("r", {})
    store.close()
    shutil.copy(path, small_disk / "runs.db")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(JournalError, match=r"runs\.db.*(writ|permission)"):
        SqliteStore(small_disk / "runs.db")
    with pytest.raises(JournalError, match=r"more/runs\.db.*permissions"):
        SqliteStore(small_disk / "more" / "runs.db")
