"""A run in the hands of its owner: one connection that writes, fenced by the run's epoch."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, cast

from graphmill.core.errors import OwnedError
from graphmill.core.json import KEY_BYTES
from graphmill.core.usage import add_by_model
from graphmill.journal.bodies import spent_body, spent_from
from graphmill.journal.records import (
    AttemptRow,
    CallRow,
    OrphansRow,
    ResultRow,
    Row,
    RunRecord,
    RunRequest,
    RunRow,
    Spent,
    StepRow,
    SuspectRow,
    WantedRow,
)
from graphmill.journal.sqlite.calls import CallGroup, CallPacker
from graphmill.journal.sqlite.database import Database, FileWatch, write_alone, writing
from graphmill.journal.sqlite.faults import damaged, translate_errors, translated
from graphmill.journal.sqlite.rows import (
    Stored,
    alike,
    digest_of,
    encode_attempt,
    encode_result,
    encode_step,
    encode_suspect,
    encode_wanted,
    text_of,
)
from graphmill.journal.sqlite.run_row import MOST_UNCOUNTED, StoredRun, write_counters, write_manifest, write_run
from graphmill.journal.sqlite.statements import ADD_RESULTS, INSERT_RESULTS, INSERT_STEPS, SQL

_KINDS = (ResultRow, StepRow, AttemptRow, CallRow, WantedRow, SuspectRow, OrphansRow, RunRow)
_COUNT_S = 0.5


class SqliteLedger:
    """Appends to one run; ``row`` is the run's own row, and ``released`` is called once, at the end.

    Where a few results come at a time, the run's row is not written with each of them: they are counted a little later.
    """

    def __init__(
        self,
        database: Database,
        connection: sqlite3.Connection,
        row: StoredRun,
        *,
        run: RunRecord,
        folder: Path,
        released: Callable[[], None],
    ) -> None:
        self.run = run
        self.folder: Path | None = folder
        self._database = database
        self._connection = connection
        self._row = row
        self._may_lag = row.may_be_behind
        self._last = row.last
        self.usage = self._counted = spent_from(row.usage)
        self._name = database.name
        self._translated = translate_errors(database.name)
        self._released = released
        self._watch = FileWatch(database.path)
        self._pid = os.getpid()
        self._is_open = True
        self._heard = 0
        self._packer = CallPacker(row.number)

    def append(self, rows: Sequence[Row]) -> None:
        """Make these durable, all or none."""
        self._hold()
        now = self._database.clock() + 0.0
        try:
            self._watch.glance()
            if not self._add(rows, now):
                self._append_and_count(_grouped(rows), now)
        except Exception as error:
            found = translated(self._name, error)
            if found is None:
                raise
            raise found from error

    def requests(self) -> Sequence[RunRequest]:
        """Return the requests made since the last call."""
        self._hold()
        with self._translated:
            self._watch.look()
            found = self._connection.execute(SQL["requests"], (self._row.number, self._heard)).fetchall()
        for seq, *values, digest in found:
            if digest != digest_of(tuple(values)):
                raise damaged(self._name, f"row {seq} of requests (run {self.run.id})")
            self._heard = seq
        return [RunRequest(text_of(word), text_of(argument)) for _, _, word, argument, *_ in found]

    def release(self) -> None:
        """Let others have the run."""
        if self._is_open and self._pid == os.getpid():
            self._is_open = False
            with self._translated:
                try:
                    self._connection.close()
                finally:
                    self._released()

    def _add(self, rows: Sequence[Row], now: float) -> bool:
        """Add a few results, and nothing else, without counting them; return whether they were."""
        run, last = self._row, self._last
        if len(rows) not in ADD_RESULTS or not self._may_be_behind(len(rows), now):
            return False
        stored: list[Stored] = []
        for row in rows:
            if type(row) is not ResultRow:
                return False
            stored.append(encode_result(run.number, row, now))
        values: list[object] = []
        for each in alike(stored):
            last += 1
            values.append(last)
            values += each
        values += (run.number, run.epoch)
        statement = ADD_RESULTS[len(rows)][len(values)]
        try:
            added = write_alone(self._connection, statement, values, busy_s=self._database.busy_s)
        except sqlite3.IntegrityError:  # the next number is that of another run's result
            return False
        if not added.rowcount:
            raise self._fenced()
        self._last = last
        self.usage = _with_spent(self.usage, rows)
        return True

    def _may_be_behind(self, more: int, now: float) -> bool:
        """Return whether the counters may be so many more behind; a clock that was set back says no."""
        run = self._row
        is_recent = run.changed_at <= now < run.changed_at + _COUNT_S
        return is_recent and self._may_lag and self._last + more - run.last <= MOST_UNCOUNTED

    def _append_and_count(self, groups: dict[type, list[Any]], now: float) -> None:
        calls = self._packer.pack(groups[CallRow]) if groups[CallRow] else []  # before others have to wait
        with writing(self._connection, busy_s=self._database.busy_s):
            uncounted = self._last - self._row.last
            usage = _with_spent(self.usage, chain(*(groups[kind] for kind in _SPENDING)))
            counted = self._row._replace(changed_at=now, last=self._last, rows=self._row.rows + uncounted)
            if usage is not self._counted:
                counted = counted._replace(usage=spent_body(usage))
            after = self._write_calls(calls, self._write(groups, counted))
            write = write_run if groups[RunRow] else write_counters
            if not write(self._connection, after, self._row.epoch):
                raise self._fenced()
        self._row, self._may_lag, self._last = after, after.may_be_behind, after.last
        self.usage = self._counted = usage
        self._packer.learn(calls)
        if groups[RunRow]:
            self._watch.look()

    def _write(self, groups: dict[type, list[Any]], run: StoredRun) -> StoredRun:
        number = run.number
        if results := groups[ResultRow]:
            run = self._write_results([encode_result(number, row, run.changed_at) for row in results], run)
        if steps := groups[StepRow]:
            self._insert_all(INSERT_STEPS, [encode_step(number, row) for row in steps])
            run = run._replace(steps=run.steps + len(steps))
        if attempts := groups[AttemptRow]:
            stored = [encode_attempt(number, row) for row in attempts]
            run = run._replace(attempts=run.attempts + self._put("insert_attempt", "replace_attempt", stored))
        if wanted := groups[WantedRow]:
            stored = [encode_wanted(number, row) for row in wanted]
            run = run._replace(wanted=run.wanted + self._put("insert_wanted", "raise_wanted", stored))
        if suspects := groups[SuspectRow]:
            stored = [encode_suspect(number, row) for row in suspects]
            run = run._replace(suspects=run.suspects + self._put("insert_suspect", "replace_suspect", stored))
        for row in groups[OrphansRow][-1:]:
            run = run._replace(orphans=self._write_orphans(row))
        for row in groups[RunRow]:
            run = self._change(run, row)
        return run

    def _write_calls(self, calls: Sequence[CallGroup], run: StoredRun) -> StoredRun:
        for group in calls:
            group.row = self._connection.execute(SQL["insert_calls"], group.stored).lastrowid or 0
        return run._replace(calls=run.calls + len(calls))

    def _write_results(self, stored: list[Stored], run: StoredRun) -> StoredRun:
        first = run.first or self._last_result() + 1
        return run._replace(rows=run.rows + len(stored), first=first, last=self._insert_all(INSERT_RESULTS, stored))

    def _insert_all(self, statements: Mapping[int, Mapping[int, str]], stored: list[Stored]) -> int:
        """Insert many rows by few statements, each for as many as it can take; return the number of the last."""
        start = last = 0
        for count, by_values in statements.items():
            while len(stored) - start >= count:
                values = list(chain.from_iterable(alike(stored[start : start + count])))
                last = self._connection.execute(by_values[len(values)], values).lastrowid or last
                start += count
        return last

    def _last_result(self) -> int:
        return cast("int", self._connection.execute(SQL["last_result"]).fetchone()[0])

    def _insert(self, statement: str, stored: list[Stored]) -> int:
        """Insert what is not there; return how many that were."""
        before = self._connection.total_changes
        self._connection.executemany(SQL[statement], stored)
        return self._connection.total_changes - before

    def _put(self, insert: str, update: str, stored: list[Stored]) -> int:
        inserted = self._insert(insert, stored)
        if inserted < len(stored):
            self._connection.executemany(SQL[update], stored)
        return inserted

    def _write_orphans(self, row: OrphansRow) -> int:
        keys = sorted(set(row.keys))
        if any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"the key of an orphan has {KEY_BYTES} bytes")
        body = b"".join(keys)
        self._connection.execute(SQL["put_orphans"], (self._row.number, body, digest_of((self._row.number, body))))
        return len(keys)

    def _change(self, run: StoredRun, row: RunRow) -> StoredRun:
        if row.manifest is not None:
            write_manifest(self._connection, run.number, row.manifest)
        return run.changed(row)

    def _hold(self) -> None:
        if not self._is_open or self._pid != os.getpid():
            raise self._fenced()

    def _fenced(self) -> OwnedError:
        return OwnedError(
            f"run {self.run.id} was released or taken by another owner; what it has not recorded by now is not recorded"
        )


_SPENDING = (ResultRow, StepRow, AttemptRow, RunRow)


def _with_spent(usage: Spent, rows: Iterable[Any]) -> Spent:
    spent = [row.spent for row in rows if row.spent]
    return add_by_model(usage, *spent) if spent else usage


def _grouped(rows: Sequence[Row]) -> dict[type, list[Any]]:
    groups: dict[type, list[Any]] = {kind: [] for kind in _KINDS}
    if set(map(type, rows)) == {ResultRow}:
        groups[ResultRow] = list(rows)
        return groups
    for row in rows:
        if (group := groups.get(type(row))) is None:
            raise TypeError(f"{type(row).__name__} is not a row of the journal")
        group.append(row)
    return groups
