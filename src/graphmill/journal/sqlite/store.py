"""A store in one SQLite file."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

from graphmill.core.errors import JournalError, OwnedError, UnknownRunError, UsageError
from graphmill.journal.records import FINISHED, RUNNING, RunRecord
from graphmill.journal.run_id import new_run_id, require_run_id
from graphmill.journal.scratch import left_behind
from graphmill.journal.sqlite.archive import SqliteArchive
from graphmill.journal.sqlite.database import Database, make_private, reading, writing
from graphmill.journal.sqlite.faults import translate_errors
from graphmill.journal.sqlite.ledger import SqliteLedger
from graphmill.journal.sqlite.owners import Owners
from graphmill.journal.sqlite.rows import RUN_STATUSES, STATE_CODES, bytes_of
from graphmill.journal.sqlite.run_row import (
    StoredRun,
    read_manifest,
    read_run,
    read_runs,
    verify_counts,
    write_manifest,
    write_run,
)
from graphmill.journal.sqlite.statements import SQL


class SqliteStore:
    """Runs in the file at ``path``, which is created if necessary; waits ``busy_s`` for a busy database."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], float] = time.time,
        busy_s: float = 30.0,
        is_durable: bool = True,
    ) -> None:
        self._database = Database(Path(os.path.realpath(path)), clock=clock, busy_s=busy_s, is_durable=is_durable)
        self.name = self._database.name
        self._local = LocalFolder(self.name)
        self.archive = SqliteArchive(self._database, self._local.of)

    @property
    def file(self) -> Path | None:
        """The database."""
        return self._database.path

    def create(self, run_id: str | None, manifest: Mapping[str, Any]) -> RunRecord:
        """Note a new run, running and without an owner."""
        if run_id is not None:
            require_run_id(run_id, is_pass="of" in manifest)
        now = self._database.clock() + 0.0
        with self._database.writing() as connection:
            runs = read_runs(connection, self.name)
            if run_id in [run.name for run in runs]:
                raise UsageError(f"{self.name} holds a run {run_id} already; resume it, or give another id")
            run = _new_run(connection, run_id or _new_id(connection, now, [run.name for run in runs]), now)
            connection.execute(SQL["insert_run"], (run.name, *run[2:], run.digest))
            connection.execute(SQL["put_meta"], ("runs", len(runs) + 1))
            write_manifest(connection, run.number, manifest)
            return run.record(read_manifest(connection, run, self.name), is_owned=True)

    def take(self, run_id: str) -> SqliteLedger:
        """Become the owner of a run."""
        owners = self._database.owners
        with self._database.reading() as connection:
            runs = read_runs(connection, self.name)
        found = next((run for run in runs if run.name == run_id), None)
        if found is None:
            raise UnknownRunError(f"{self.name} holds no run {run_id!r:.80}")
        if not owners.take(found.number):
            with self._database.reading() as connection:  # once more: it may have been taken since
                raise self._owned(read_run(connection, found.number, run_id, self.name))
        try:
            self._local.sweep(runs, owners)
            return self._taken(found.number, run_id)
        except BaseException:
            owners.release(found.number)
            raise

    def size(self, run: RunRecord) -> int:
        """Estimate how many bytes a run takes."""
        with self._database.reading() as connection:
            stored = read_run(connection, run.number, run.id, self.name)
            place = (stored.number, stored.first, stored.last)
            found: int = connection.execute(SQL["size"], (*place, *[stored.number] * 6)).fetchone()[0]
            return found

    def prune(self, runs: Sequence[RunRecord]) -> int:
        """Forget these runs, but not one under way."""
        gone = 0
        try:
            for run in runs:
                if forget(self._database, run):
                    gone += 1
                    self._local.remove(run.id)
            return sweep(self._database)
        except JournalError as error:
            if not gone:
                raise
            done = f"pruned {gone:,} of {len(runs):,} runs, but not freed their space; prune again to free it"
            raise type(error)(f"{done}: {error}") from error

    def close(self) -> None:
        """Close everything. The last connection of all processes empties the log into the database."""
        self._database.close()

    def _taken(self, number: int, run_id: str) -> SqliteLedger:
        database = self._database
        with translate_errors(self.name):
            connection = database.connect_writer()
            try:
                with reading(connection):
                    verify_counts(
                        connection, read_run(connection, number, run_id, self.name, is_strict=True), self.name
                    )
                with writing(connection, busy_s=database.busy_s):
                    before = read_run(connection, number, run_id, self.name, is_strict=True)
                    record = before.record(read_manifest(connection, before, self.name), is_owned=False)
                    now = database.clock() + 0.0
                    after = _owned_run(before, now, elapsed_s=record.elapsed_at(now))
                    connection.execute(SQL["delete_requests"], (number,))
                    write_run(connection, after, before.epoch)
                database.note_verified(after)
                return SqliteLedger(
                    database,
                    connection,
                    after,
                    run=record,
                    folder=self._local.make(run_id),
                    released=lambda: self._released(number, run_id),
                )
            except BaseException:
                connection.close()
                raise

    def _released(self, number: int, run_id: str) -> None:
        self._local.remove(run_id, is_empty=True)
        self._database.owners.release(number)

    def _owned(self, run: StoredRun) -> OwnedError:
        who = "another process"
        if run.owner is not None:
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.owner.since))
            who = f"process {run.owner.pid} on {run.owner.host} since {since}"
        return OwnedError(
            f"run {run.name} is running in {who}; see graphmill status {run.name}, or stop it with "
            f"graphmill cancel {run.name}"
        )


def _new_id(connection: sqlite3.Connection, now: float, known: Sequence[str]) -> str:
    newest = next((value.decode() for (value,) in connection.execute(SQL["meta"], ("newest",))), None)
    newest = new_run_id(now, newest)
    while newest in known:
        newest = new_run_id(now, newest)
    connection.execute(SQL["put_meta"], ("newest", newest))
    return newest


def _new_run(connection: sqlite3.Connection, run_id: str, now: float) -> StoredRun:
    (number,) = connection.execute(SQL["next_run_number"]).fetchone()
    return StoredRun(
        number=number,
        id=bytes_of(run_id),
        epoch=0,
        state=STATE_CODES[RUNNING],
        reason=b"",
        generation=1,
        created_at=now,
        changed_at=now,
        elapsed_s=0.0,
        total=None,
        is_read=0,
        owner_host=None,
        owner_pid=None,
        owner_since=None,
        first=0,
        last=0,
        rows=0,
        steps=0,
        attempts=0,
        wanted=0,
        suspects=0,
        orphans=0,
    )


def _owned_run(run: StoredRun, now: float, *, elapsed_s: float) -> StoredRun:
    return run._replace(
        epoch=run.epoch + 1,
        state=STATE_CODES[RUNNING],
        reason=b"",
        owner_host=bytes_of(socket.gethostname()),
        owner_pid=os.getpid(),
        owner_since=now,
        changed_at=now,
        elapsed_s=elapsed_s,
    )


class TemporaryStore(SqliteStore):
    """Runs that end with the process: a private file, never synced, deleted when the store is closed."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        folder = mkdtemp(prefix="graphmill-")
        try:
            super().__init__(Path(folder, "runs.db"), clock=clock, is_durable=False)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._discard = finalize(self, _discard, self._database, folder, os.getpid())

    @property
    def file(self) -> Path | None:
        """None: nothing should be put beside it."""
        return None

    def close(self) -> None:
        """Close and delete it."""
        self._discard()


def _discard(database: Database, folder: str, pid: int) -> None:
    database.close()
    if pid == os.getpid():  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)


class LocalFolder:
    """The local folder of the store at a path."""

    def __init__(self, store: str) -> None:
        self._path = Path(f"{store}-local")

    def of(self, run_id: str) -> Path:
        """Return where the folder of a run is."""
        return self._path / run_id

    def make(self, run_id: str) -> Path:
        """Make the folder of a run."""
        make_private(self._path)
        make_private(self.of(run_id))
        return self.of(run_id)

    def remove(self, run_id: str, *, is_empty: bool = False) -> None:
        """Remove the folder of a run, or only one that is empty; and this one with the last of them."""
        with suppress(OSError):
            self.of(run_id).rmdir() if is_empty else shutil.rmtree(self.of(run_id))
            self._path.rmdir()

    def sweep(self, runs: Sequence[StoredRun], owners: Owners) -> None:
        """Remove what dead processes have left, but not which items were in flight: a resume reads that."""
        named = {run.name: run for run in runs}
        with suppress(OSError):
            for folder in list(self._path.iterdir()):
                run = named.get(folder.name)
                if run is not None and not _is_wanted(run, folder) and owners.take(run.number):
                    self.remove(run.name)
                    owners.release(run.number)


def _is_wanted(run: StoredRun, folder: Path) -> bool:
    return RUN_STATUSES[run.state] != FINISHED and any(left_behind(file) for file in folder.iterdir())


_STEP_ROWS = 1000
_STEP_PAGES = 500


def forget(database: Database, run: RunRecord) -> bool:
    """Remove a run from the list unless it has an owner, and return whether it was; ``sweep`` deletes its rows."""
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
    """Delete the rows of removed runs, also those left by a killed process; shrink the file; return the bytes freed."""
    with translate_errors(database.name), closing(database.connect_writer()) as connection:
        pages = sum(
            _delete(database, connection, *leftover) for leftover in connection.execute(SQL["leftovers"]).fetchall()
        )
        left = _value(connection, "PRAGMA freelist_count")
        while left > 0:
            with writing(connection, busy_s=database.busy_s):
                for _ in range(_STEP_PAGES):
                    # One page each: of several, Python's execute would stop after the first.
                    connection.execute("PRAGMA incremental_vacuum(1)")
            left -= _STEP_PAGES
        connection.execute(
            "PRAGMA wal_checkpoint(PASSIVE)"
        ).fetchall()  # the others wait for readers, and make writers wait
        return pages * _value(connection, "PRAGMA page_size")


def _delete(database: Database, connection: sqlite3.Connection, run: int, first: int, last: int) -> int:
    """Delete what is left of one run; return how many pages that set free."""
    freed = 0
    for statement, values in (
        ("delete_results", (run, first, last, _STEP_ROWS)),
        ("delete_steps", (run, _STEP_ROWS)),
        ("delete_attempts", (run, _STEP_ROWS)),
        ("delete_calls", (run, _STEP_ROWS)),
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
