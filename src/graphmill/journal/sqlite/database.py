"""One database with all that its readers and writers share."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from graphmill.journal.sqlite.connection import Readers, connect, connect_writer, writing
from graphmill.journal.sqlite.faults import translated
from graphmill.journal.sqlite.files import make_file, make_folder, require_base
from graphmill.journal.sqlite.filesystem import require_trusted
from graphmill.journal.sqlite.migrations import prepare
from graphmill.journal.sqlite.owners import let_go, owners_of
from graphmill.journal.sqlite.stored_run import StoredRun
from graphmill.journal.sqlite.verification import verify


class Database:
    """A database that exists and has the present version; ``name`` is its path."""

    def __init__(self, path: Path, *, clock: Callable[[], float], busy_s: float) -> None:
        self.path = path
        self.name = str(path)
        self.clock = clock
        self.busy_s = busy_s
        self._verified: set[tuple[int, int]] = set()
        self._is_closed = False
        with translated(self.name):
            require_trusted(path)
            make_folder(path.parent)
            lock_file = path.with_name(f"{path.name}-owners")
            make_file(lock_file)
            self.owners = owners_of(lock_file)
            try:
                with self.owners.alone(busy_s):
                    require_base(path)
                    make_file(path)
                    first = _prepared(path, busy_s=busy_s)
            except BaseException:
                let_go(self.owners)
                raise
        # It stays: to close the last connection is to empty the log into the database, which takes syncs, and more when it is begun anew.
        self._readers = Readers(path, busy_s=busy_s, first=first)

    def connect(self) -> sqlite3.Connection:
        """Open a connection that writes, to be closed by whoever asked."""
        return connect_writer(self.path, busy_s=self.busy_s)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Look at one state of the database."""
        with translated(self.name), self._readers.snapshot() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Change the database, whole or not at all, on a connection for just this."""
        with translated(self.name), closing(self.connect()) as connection, writing(connection, busy_s=self.busy_s):
            yield connection

    def note_verified(self, run: StoredRun) -> None:
        """Look no more, until the run's next owner: this one has looked."""
        self._verified.add((run.number, run.epoch))

    def verify_once(self, connection: sqlite3.Connection, run: StoredRun) -> None:
        """Look for missing rows before the first answer about single items of a run, or about its next owner's work."""
        if (run.number, run.epoch) not in self._verified:
            verify(connection, run, self.name)
            self._verified.add((run.number, run.epoch))

    def close(self) -> None:
        """Let go of everything."""
        if not self._is_closed:
            self._is_closed = True
            self._readers.close()
            let_go(self.owners)


def _prepared(path: Path, *, busy_s: float) -> sqlite3.Connection:
    connection = connect(path, busy_s=busy_s)
    try:
        prepare(connection, str(path))
    except BaseException:
        connection.close()
        raise
    return connection
