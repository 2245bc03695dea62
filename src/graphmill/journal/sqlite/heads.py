"""The current results of a run without their bodies: a pass over the table that no damage to an index can mislead."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from graphmill.journal.sqlite.faults import damaged
from graphmill.journal.sqlite.rows import HEAD, Stored, seal_of
from graphmill.journal.sqlite.statements import SQL
from graphmill.journal.sqlite.stored_run import StoredRun


def read_heads(connection: sqlite3.Connection, run: StoredRun, name: str) -> Iterator[Stored]:
    """Give key to content, seal and row number of each current result in input order; DamagedError, at the end, if one is missing."""
    count = 0
    for stored in connection.execute(SQL["heads"], (run.number, run.first, run.last)):
        count += 1
        if stored[HEAD] != seal_of(stored[:HEAD]):
            raise damaged(name, f"row {stored[HEAD + 1]} of results (run {run.name})")
        if stored[2] >= stored[-1]:
            yield stored
    if count != run.rows:
        raise damaged(name, f"the number of results of run {run.name} ({count}, where {run.rows} were written)")
