"""Forgetting runs: at once for readers, and then in small steps, so that the writer of a live run never waits long."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from graphmill.core.errors import UnknownRunError
from graphmill.journal.records import RunRecord
from graphmill.journal.sqlite.connection import writing
from graphmill.journal.sqlite.database import Database
from graphmill.journal.sqlite.faults import translated
from graphmill.journal.sqlite.statements import SQL
from graphmill.journal.sqlite.stored_run import read_run

_STEP_ROWS = 1000
_STEP_PAGES = 500


def forget(database: Database, run: RunRecord) -> bool:
    """Take a run out of the list, unless it has an owner; what is left of it is for ``sweep``. Tell whether it was done."""
    if not database.owners.take(run.number):
        return False
    try:
        with database.writing() as connection:
            stored = read_run(connection, run.number, run.id, database.name)
            connection.execute(SQL["delete_run"], (run.number,))
            connection.execute(SQL["insert_leftover"], (run.number, stored.first, stored.last))
            (count,) = connection.execute(SQL["meta"], ("runs",)).fetchone()
            connection.execute(SQL["put_meta"], ("runs", count - 1))
    except UnknownRunError:
        return False
    finally:
        database.owners.release(run.number)
    return True


def sweep(database: Database) -> int:
    """Delete the rows of forgotten runs, also of those that a killed process left, and shrink the file; tell the bytes set free."""
    with translated(database.name), closing(database.connect()) as connection:
        pages = sum(
            _delete(database, connection, *leftover) for leftover in connection.execute(SQL["leftovers"]).fetchall()
        )
        left = _value(connection, "PRAGMA freelist_count")
        while left > 0:
            with writing(connection, busy_s=database.busy_s):
                for _ in range(_STEP_PAGES):
                    connection.execute(
                        "PRAGMA incremental_vacuum(1)"
                    )  # of more, Python's execute would stop after the first
            left -= _STEP_PAGES
        connection.execute(
            "PRAGMA wal_checkpoint(PASSIVE)"
        ).fetchall()  # the others wait for readers, and make writers wait
        return pages * _value(connection, "PRAGMA page_size")


def _delete(database: Database, connection: sqlite3.Connection, run: int, first: int, last: int) -> int:
    """Delete what is left of one run; tell how many pages that set free."""
    freed = 0
    for statement, values in (
        ("delete_results", (run, first, last, _STEP_ROWS)),
        ("delete_steps", (run, _STEP_ROWS)),
        ("delete_attempts", (run, _STEP_ROWS)),
        ("delete_wanted", (run, run, _STEP_ROWS)),
        ("delete_suspects", (run, run, _STEP_ROWS)),
    ):
        count = _STEP_ROWS
        while count == _STEP_ROWS:
            with writing(connection, busy_s=database.busy_s):
                before = _value(connection, "PRAGMA freelist_count")
                count = connection.execute(SQL[statement], values).rowcount
                freed += _value(connection, "PRAGMA freelist_count") - before
    with writing(connection, busy_s=database.busy_s):
        before = _value(connection, "PRAGMA freelist_count")
        for statement in ("delete_orphans", "delete_manifest", "delete_requests", "delete_leftover"):
            connection.execute(SQL[statement], (run,))
        return freed + _value(connection, "PRAGMA freelist_count") - before


def _value(connection: sqlite3.Connection, statement: str) -> int:
    found: int = connection.execute(statement).fetchone()[0]
    return found
