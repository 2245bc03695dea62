"""Connections to the database: how one is opened, and a pool of those that read."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from urllib.parse import quote

from graphmill.core.errors import JournalError

_MOST_IDLE = 4
_POLL_S = 0.001
_SETTINGS = (
    "PRAGMA cache_size = -4096",  # kB for each connection, of which a run has a few
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",  # on macOS fsync alone leaves data in the disk's cache
    "PRAGMA cell_size_check = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA mmap_size = 0",  # an I/O error in mapped memory kills the process
)
_abandoned: list[sqlite3.Connection] = []  # inherited by a forked child, where neither use nor close is safe


def connect(path: Path, *, busy_s: float) -> sqlite3.Connection:
    """Open a database that exists; transactions are begun by hand, and text comes as bytes."""
    address = f"file:{quote(os.fsencode(path))}?mode=rw"  # never made anew when it was deleted
    connection = sqlite3.connect(address, uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        connection.text_factory = bytes
        for setting in _SETTINGS:
            connection.execute(setting)
    except BaseException:
        connection.close()
        raise
    return connection


def abandon(connection: sqlite3.Connection) -> None:
    """Keep a connection that this process has inherited from being closed."""
    _abandoned.append(connection)


def connect_writer(path: Path, *, busy_s: float) -> sqlite3.Connection:
    """Open a connection whose writes are begun by ``writing``, which does the waiting."""
    connection = connect(path, busy_s=busy_s)
    connection.execute("PRAGMA busy_timeout = 0")
    return connection


@contextmanager
def writing(connection: sqlite3.Connection, *, busy_s: float) -> Iterator[None]:
    """Write what is written within, or nothing of it, when no other writes."""
    begin_write(connection, busy_s=busy_s)
    with _ended(connection):
        yield


def begin_write(connection: sqlite3.Connection, *, busy_s: float) -> None:
    """Begin to write when no other does."""
    write_alone(connection, "BEGIN IMMEDIATE", (), busy_s=busy_s)


def write_alone(
    connection: sqlite3.Connection, statement: str, values: Sequence[object], *, busy_s: float
) -> sqlite3.Cursor:
    """Execute what needs to be the only one that writes when no other does.

    SQLite itself asks again only ten times a second, and beside a run that commits without a pause it may never get its turn.
    """
    deadline = time.monotonic() + busy_s
    while True:
        try:
            return connection.execute(statement, values)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(_POLL_S)


def roll_back(connection: sqlite3.Connection) -> None:
    """Undo what was begun, if something was."""
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


@contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """See one state of the database throughout."""
    connection.execute("BEGIN")
    with _ended(connection):
        yield


@contextmanager
def _ended(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


class Readers:
    """Connections that only read, lent to any thread for as long as a block takes; the ``first`` of them is open already."""

    def __init__(self, path: Path, *, busy_s: float, first: sqlite3.Connection) -> None:
        self._path = path
        self._busy_s = busy_s
        self._idle = [_only_reading(first)]
        self._lock = Lock()
        self._pid = os.getpid()
        self._is_closed = False

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection that sees one state of the database throughout."""
        connection = self._borrow()
        try:
            with reading(connection):
                yield connection
        finally:
            self._give_back(connection)

    def close(self) -> None:
        """Close all; one that is lent is closed when it comes back."""
        self._abandon_inherited()
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _abandon_inherited(self) -> None:
        if self._pid != os.getpid():
            self._pid, self._lock = os.getpid(), Lock()
            _abandoned.extend(self._idle)
            self._idle = []

    def _borrow(self) -> sqlite3.Connection:
        self._abandon_inherited()
        with self._lock:
            if self._is_closed:
                raise JournalError(f"the journal {self._path} is closed")
            if self._idle:
                return self._idle.pop()
        return _only_reading(connect(self._path, busy_s=self._busy_s))

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()


def _only_reading(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute("PRAGMA query_only = ON")
    return connection
