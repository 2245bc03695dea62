"""The durable door, used the same way by every figure of the journal, and the same rows in SQLite by hand."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import graphmill as gm
from benchmarks.streaming import jobs, require

_SETTINGS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA fullfsync = ON")
_TABLE = """
CREATE TABLE results (
  row INTEGER PRIMARY KEY, key BLOB, position INTEGER, status INTEGER, content BLOB, digest BLOB,
  at REAL, attempts INTEGER, queued_s REAL, duration_s REAL, item_id BLOB, input BLOB, output BLOB
)
"""
_INDEX = "CREATE UNIQUE INDEX results_by_key ON results (key)"
_INSERT = f"INSERT INTO results VALUES (NULL{', ?' * 12})"


def record(graph: Callable[[Any], Any], count: int, *, concurrency: int, clock: Callable[[], float]) -> float:
    """Tell the seconds, on this clock, that a recorded run over so many jobs takes beyond one over none: what the items cost.

    Both are timed from the making of their store to its close, so that nothing that grows with the items is left out.
    """
    record_whole(graph, 0, concurrency=concurrency, clock=clock)  # the first imports
    empty_s = record_whole(graph, 0, concurrency=concurrency, clock=clock)
    return record_whole(graph, count, concurrency=concurrency, clock=clock) - empty_s


def record_whole(graph: Callable[[Any], Any], count: int, *, concurrency: int, clock: Callable[[], float]) -> float:
    """Tell the seconds of a recorded run from the making of its store to its close."""
    with fresh_folder() as folder:
        began = clock()
        asyncio.run(_record(folder / "runs.db", graph, count, concurrency))
        return clock() - began


async def _record(path: Path, graph: Callable[[Any], Any], count: int, concurrency: int) -> None:
    with closing(gm.open_journal(path)) as journal:
        executor = gm.BatchExecutor(gm.Policy(concurrency=concurrency), journal=journal)
        async with executor.start(jobs(graph, count), run_id="benchmark") as run:
            async for _ in run.results():
                pass
    require(count, run.statistics().succeeded)


def insert(count: int, *, group: int) -> float:
    """Tell the seconds that the same rows take by hand, so many in each commit, with the same promise that they are on disk."""
    with fresh_folder() as folder:
        with closing(sqlite3.connect(folder / "rows.db", isolation_level=None)) as connection:
            for statement in (*_SETTINGS, _TABLE, _INDEX):
                connection.execute(statement)
            began = time.perf_counter()
            for number in range(0, count, group):
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(_INSERT, _rows(number, min(number + group, count)))
                connection.execute("COMMIT")
            require(count, connection.execute("SELECT count(*) FROM results").fetchone()[0])
        return time.perf_counter() - began  # closing moves the log into the database, as ours does


def _rows(first: int, last: int) -> Iterator[tuple[Any, ...]]:
    """Give rows as long as ours, for items that are their own numbers."""
    for number in range(first, last):
        text = str(number).encode()
        key = blake2b(text, digest_size=16).digest()
        yield key, number, 1, key, key, time.time(), 1, 0.25, 0.25, text, text, text


@contextmanager
def fresh_folder() -> Iterator[Path]:
    """Give a folder that is gone afterwards; it is where TMPDIR says, which should be a disk."""
    with TemporaryDirectory(prefix="graphmill-benchmark-") as name:
        yield Path(name)
