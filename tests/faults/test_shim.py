"""The library itself, on a small program: it counts what SQLite and Python do, and what it was told to break breaks."""

import signal
import sqlite3
import subprocess
import sys

import pytest

from faults.shim import Fault, Shim

PROGRAM = """
import os, sqlite3, sys
base = sqlite3.connect("store/base.db", isolation_level=None)
base.execute("PRAGMA journal_mode=WAL")
base.execute("PRAGMA synchronous=FULL")
base.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY)")
for n in range(30):
    base.execute("INSERT OR IGNORE INTO t VALUES (?)", (n,))
    print(n, flush=True)
with open("store/out.tmp", "wb") as out:
    out.write(b"whole" * 100)
    out.flush()
    os.fsync(out.fileno())
os.replace("store/out.tmp", "store/out")
os._exit(0)
"""


def run(folder, library, fault):
    (folder / "store").mkdir(parents=True, exist_ok=True)
    shim = Shim(library, folder, under=[folder / "store"], fault=fault)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=folder, env=shim.variables, capture_output=True, timeout=60, check=False
    )
    return done, shim.tally()


def test_what_sqlite_and_python_write_sync_and_rename_is_counted(tmp_path, library):
    done, tally = run(tmp_path, library, Fault())
    assert done.returncode == 0
    assert tally.fired == 0
    assert tally.counts["write"] > 60
    assert tally.counts["sync"] > 30
    assert tally.counts["rename"] == 1


def test_calls_elsewhere_are_not_counted(tmp_path, library):
    (tmp_path / "other").mkdir()
    shim = Shim(library, tmp_path, under=[tmp_path / "othe"], fault=Fault(at=1))
    program = "import os; open('other/file', 'w').write('x'); os.replace('other/file', 'other/file2')"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=shim.variables, timeout=60, check=True)
    assert set(shim.tally().counts.values()) == {0}


@pytest.mark.parametrize(
    ("kind", "at", "action"),
    [("write", 40, "ENOSPC"), ("write", 41, "short"), ("sync", 20, "EIO"), ("rename", 1, "EIO")],
)
def test_the_call_that_was_named_fails_and_the_program_hears_of_it(tmp_path, library, kind, at, action):
    done, tally = run(tmp_path, library, Fault(kind=kind, at=at, action=action))
    assert (done.returncode, tally.fired) == (1, 1)
    assert b"Error" in done.stderr
    assert str(tmp_path / "store") in tally.hit


@pytest.mark.parametrize(
    ("kind", "action"),
    [("write", "before"), ("write", "torn"), ("write", "after"), ("sync", "before"), ("rename", "after")],
)
def test_a_death_at_every_call_loses_nothing_that_was_said_to_be_committed(tmp_path, library, kind, action):
    """The idea of the enumeration, on bare SQLite."""
    _, whole = run(tmp_path / "whole", library, Fault())
    count = whole.counts[kind]
    for at in {1, (count + 1) // 2, count}:
        folder = tmp_path / f"at-{at}"
        done, tally = run(folder, library, Fault(kind=kind, at=at, action=action))
        assert (done.returncode, tally.fired) == (-signal.SIGKILL, 1)
        said = {int(line) for line in done.stdout.split()}
        assert said <= held(folder)
        done, _ = run(folder, library, Fault())
        assert done.returncode == 0
        assert held(folder) == set(range(30))
        assert (folder / "store" / "out").read_bytes() == b"whole" * 100


def held(folder):
    base = sqlite3.connect(folder / "store" / "base.db")
    try:
        return (
            {n for (n,) in base.execute("SELECT n FROM t")}
            if base.execute("SELECT 1 FROM sqlite_master").fetchone()
            else set()
        )
    finally:
        base.close()
