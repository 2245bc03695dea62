"""A store in one SQLite file."""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphmill.core.errors import JournalError, OwnedError, UnknownRunError, UsageError
from graphmill.journal.records import RunRecord, RunState
from graphmill.journal.run_id import new_run_id, require_run_id
from graphmill.journal.sqlite.archive import SqliteArchive
from graphmill.journal.sqlite.codes import STATE_CODES
from graphmill.journal.sqlite.connection import reading, writing
from graphmill.journal.sqlite.database import Database
from graphmill.journal.sqlite.faults import translated
from graphmill.journal.sqlite.ledger import SqliteLedger
from graphmill.journal.sqlite.local_folder import LocalFolder
from graphmill.journal.sqlite.pruning import forget, sweep
from graphmill.journal.sqlite.rows import bytes_of
from graphmill.journal.sqlite.statements import SQL
from graphmill.journal.sqlite.stored_run import StoredRun, read_manifest, read_run, read_runs, write_manifest, write_run
from graphmill.journal.sqlite.verification import verify


class SqliteStore:
    """Runs in the file at ``path``, which is made if it is not there. A database that is busy is waited for ``busy_s``."""

    def __init__(
        self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time, busy_s: float = 30.0
    ) -> None:
        self._database = Database(Path(os.path.realpath(path)), clock=clock, busy_s=busy_s)
        self.name = self._database.name
        self.archive = SqliteArchive(self._database)
        self._local = LocalFolder(self.name)

    def create(self, run_id: str | None, manifest: Mapping[str, Any]) -> RunRecord:
        """Note a new run, running and without an owner."""
        if run_id is not None:
            require_run_id(run_id)
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
        """Tell about how many bytes a run takes."""
        with self._database.reading() as connection:
            stored = read_run(connection, run.number, run.id, self.name)
            place = (stored.number, stored.first, stored.last)
            found: int = connection.execute(SQL["size"], (*place, *[stored.number] * 5)).fetchone()[0]
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
            done = f"{gone:,} of {len(runs):,} runs are pruned, and their space is not given back yet; the next prune goes on with it"
            raise type(error)(f"{done}: {error}") from error

    def close(self) -> None:
        """Let go of everything. The last connection of all processes empties the log into the database."""
        self._database.close()

    def _taken(self, number: int, run_id: str) -> SqliteLedger:
        database = self._database
        with translated(self.name):
            connection = database.connect()
            try:
                with reading(connection):
                    verify(connection, read_run(connection, number, run_id, self.name, is_strict=True), self.name)
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
            f"run {run.name} is under way in {who}; see graphmill status {run.name}, or stop it by graphmill cancel {run.name}"
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
        state=STATE_CODES[RunState.RUNNING],
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
        state=STATE_CODES[RunState.RUNNING],
        reason=b"",
        owner_host=bytes_of(socket.gethostname()),
        owner_pid=os.getpid(),
        owner_since=now,
        changed_at=now,
        elapsed_s=elapsed_s,
    )
