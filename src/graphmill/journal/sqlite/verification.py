"""Whether the tables still hold as many rows of a run as were written, and the indices lead to each of them."""

from __future__ import annotations

import sqlite3

from graphmill.journal.sqlite.faults import damaged
from graphmill.journal.sqlite.rows import is_sealed
from graphmill.journal.sqlite.statements import SQL
from graphmill.journal.sqlite.stored_run import StoredRun


def verify(connection: sqlite3.Connection, run: StoredRun, name: str) -> None:
    """Raise DamagedError if something of a run is missing. Values are not looked at: each read checks its own."""
    (count,) = connection.execute(SQL["counted_results"], (run.number, run.first, run.last)).fetchone()
    if count != run.rows:
        raise damaged(name, f"the number of results of run {run.name} ({count}, where {run.rows} were written)")
    for table, written in (("steps", run.steps), ("attempts", run.attempts)):
        (count,) = connection.execute(SQL[f"counted_{table}"], (run.number,)).fetchone()
        if count != written:
            raise damaged(name, f"the number of {table} of run {run.name} ({count}, where {written} were written)")
    for table, written in (("wanted", run.wanted), ("suspects", run.suspects)):
        count = sum(map(is_sealed, connection.execute(SQL[table], (run.number,))))
        if count != written:
            raise damaged(name, f"the number of {table} of run {run.name} ({count}, where {written} were written)")
