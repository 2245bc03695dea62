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
