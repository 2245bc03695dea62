"""From an empty file, or a store of an earlier version, to the present one: numbered steps, each in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from graphmill.core.errors import JournalError
from graphmill.core.version import __version__
from graphmill.journal.sqlite.connection import writing
from graphmill.journal.sqlite.statements import SQL

APPLICATION_ID = 1198344812  # "GmJl", at the place where SQLite files tell whose they are

MIGRATIONS = tuple(
    path.read_text(encoding="utf-8") for path in sorted((Path(__file__).parent / "migrations").glob("[0-9]*.sql"))
)


def prepare(connection: sqlite3.Connection, name: str, *, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Bring a database to the present version; JournalError for one of a later version, or of somebody else."""
    version = _value(connection, "PRAGMA user_version")
    if not 0 <= version <= len(migrations):
        raise _too_new(connection, name, version, len(migrations))
    if version == 0 and _value(connection, "SELECT count(*) FROM sqlite_master"):
        raise JournalError(f"{name} is a database, but not a Graphmill journal; name another file")
    if version and _value(connection, "PRAGMA application_id") != APPLICATION_ID:
        raise JournalError(
            f"{name} is not a Graphmill journal, or its header is damaged; name another file, or restore it from a backup"
        )
    if version == 0:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # can not be changed later
    mode = _value(connection, "PRAGMA journal_mode = WAL")
    if mode != b"wal":
        raise JournalError(f"the journal {name} can not keep a write-ahead log (mode {mode!r}); put it on a local disk")
    for number in range(version, len(migrations)):
        with writing(connection, busy_s=0.0):
            for statement in _statements(migrations[number]):
                connection.execute(statement)
            connection.execute(SQL["put_meta"], ("graphmill", __version__))
            connection.execute(f"PRAGMA user_version = {number + 1}")


def _statements(script: str) -> Iterator[str]:
    """Split a script; sqlite3's own executescript would commit in between."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _too_new(connection: sqlite3.Connection, name: str, version: int, ours: int) -> JournalError:
    try:
        written_by = _value(connection, "SELECT value FROM meta WHERE name = 'graphmill'").decode()
    except (sqlite3.Error, TypeError, AttributeError, UnicodeDecodeError):
        written_by = "unknown"
    return JournalError(
        f"the journal {name} has version {version}, written by Graphmill {written_by}; "
        f"this Graphmill {__version__} reads up to version {ours}; use a newer Graphmill"
    )


def _value(connection: sqlite3.Connection, statement: str) -> Any:
    return connection.execute(statement).fetchone()[0]
