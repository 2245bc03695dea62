"""What readers ask of a store in SQLite: short looks at one state of the database each, and every value checked."""

from __future__ import annotations

import sqlite3
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from marshal import dumps
from typing import TypeVar
from zlib import crc32

from graphmill.core.keys import KEY_BYTES
from graphmill.journal.entry import to_entry
from graphmill.journal.records import Count, Entry, History, Outcome, Query, Request, RunRecord, SuspectRow
from graphmill.journal.run_name import meant_run
from graphmill.journal.sqlite.codes import KIND_CODES, KINDS, STATUS_CODES, STATUSES
from graphmill.journal.sqlite.database import Database
from graphmill.journal.sqlite.faults import damaged
from graphmill.journal.sqlite.heads import read_heads
from graphmill.journal.sqlite.rows import (
    HEAD,
    PACKING,
    Stored,
    bytes_of,
    decode_attempt,
    decode_result,
    decode_step,
    digest_of,
    is_sealed,
)
from graphmill.journal.sqlite.statements import MANY, SOME, SQL
from graphmill.journal.sqlite.stored_run import StoredRun, read_manifest, read_run, read_runs

T = TypeVar("T")


class SqliteArchive:
    """Reads one database; from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._name = database.name

    def runs(self) -> Sequence[RunRecord]:
        """List the runs, oldest first."""
        with self._database.reading() as connection:
            return [self._record(connection, run) for run in read_runs(connection, self._name)]

    def find(self, name: str) -> RunRecord:
        """Find a run by its id or the beginning of it."""
        with self._database.reading() as connection:
            runs = {run.name: run for run in read_runs(connection, self._name)}
            return self._record(connection, runs[meant_run(name, list(runs), store=self._name)])

    def counts(self, run: RunRecord) -> Sequence[Count]:
        """Count the current results."""
        with self._database.reading() as connection:
            stored = self._read(connection, run)
            counter = Counter((head[4], head[5], head[2]) for head in read_heads(connection, stored, self._name))
        return [Count(STATUSES[status], KINDS[kind], generation, count) for (status, kind, generation), count in counter.items()]

    def entries(self, run: RunRecord, query: Query) -> Iterator[Entry]:
        """Read current results in input order; only their row numbers are held, and no transaction while the caller is at work."""
        rows, orphans = self._matching(run, query)
        for start in range(0, len(rows), SOME):
            some = rows[start : start + SOME]
            with self._database.reading() as connection:
                stored = connection.execute(SQL["results_by_row"], _padded(some.tolist(), SOME)).fetchall()
                found = {row[0]: row for row in stored if row[1] == run.number}  # the number of a deleted row may be given again
                if len(found) < len(some):
                    self._explain_missing(connection, run, next(row for row in some if row not in found))
            for row in some:
                yield self._entry(found[row], run, orphans)

    def outcomes(self, run: RunRecord, keys: Sequence[bytes]) -> Mapping[bytes, Outcome]:
        """Look up which of these items have a result."""
        found: dict[bytes, Outcome] = {}
        with self._database.reading() as connection:
            stored = self._read(connection, run)
            self._database.verify_once(connection, stored)
            number = stored.number
            for start in range(0, len(keys), MANY):
                some = _padded([number, *keys[start : start + MANY]], MANY + 1)
                wanted = self._wanted(connection.execute(SQL["wanted_of"], some), run) if stored.wanted else {}
                for row, key, generation, position, status, kind, content, seal in connection.execute(SQL["outcomes"], some):
                    if seal != crc32(dumps((number, key, generation, position, status, kind, content), PACKING)):  # seal_of, without a call
                        raise damaged(self._name, f"a row of results (run {run.id}, key {key!r})")
                    if key not in found or generation > found[key][1]:
                        found[key] = Outcome(row, generation, STATUSES[status], content, wanted.get(key, 0))
        return found

    def history(self, run: RunRecord, key: bytes) -> History:
        """Read everything about one item."""
        with self._database.reading() as connection:
            stored, place = self._read(connection, run), (run.number, key)
            self._database.verify_once(connection, stored)
            orphans = self._orphans(connection, stored)
            suspects = self._sealed(connection.execute(SQL["suspect"], place), "suspects", run)
            return History(
                entries=[self._entry(row, run, orphans) for row in connection.execute(SQL["history_results"], place)],
                attempts=self._decoded(connection.execute(SQL["history_attempts"], place), decode_attempt, "attempts", run),
                steps=self._decoded(connection.execute(SQL["history_steps"], place), decode_step, "steps", run),
                wanted=self._wanted(connection.execute(SQL["wanted_one"], place), run).get(key, 0),
                suspect=next((SuspectRow(*row[1:4]) for row in suspects), None),
            )

    def rows(self, run: RunRecord) -> Iterator[tuple[int, bytes]]:
        """List the current results."""
        with self._database.reading() as connection:
            for head in read_heads(connection, self._read(connection, run), self._name):
                yield head[HEAD + 1], head[1]

    def ask(self, run: RunRecord, request: Request) -> None:
        """Ask something of a live run."""
        with self._database.writing() as connection:
            values = (self._read(connection, run).number, bytes_of(request.word), bytes_of(request.argument), self._database.clock() + 0.0)
            connection.execute(SQL["insert_request"], (*values, digest_of(values)))

    def _read(self, connection: sqlite3.Connection, run: RunRecord) -> StoredRun:
        return read_run(connection, run.number, run.id, self._name)

    def _record(self, connection: sqlite3.Connection, run: StoredRun) -> RunRecord:
        return run.record(read_manifest(connection, run, self._name), is_owned=self._database.owners.is_owned(run.number))

    def _matching(self, run: RunRecord, query: Query) -> tuple[array[int], frozenset[bytes]]:
        statuses = None if query.statuses is None else {STATUS_CODES[status] for status in query.statuses}
        kinds = None if query.kinds is None else {KIND_CODES[kind] for kind in query.kinds}
        rows = array("q")
        with self._database.reading() as connection:
            stored = self._read(connection, run)
            for head in read_heads(connection, stored, self._name):
                if (statuses is None or head[4] in statuses) and (kinds is None or head[5] in kinds):
                    rows.append(head[HEAD + 1])
            return rows[: query.limit], self._orphans(connection, stored)

    def _orphans(self, connection: sqlite3.Connection, run: StoredRun) -> frozenset[bytes]:
        if not run.orphans:
            return frozenset()
        for keys, digest in connection.execute(SQL["orphans"], (run.number,)):
            if digest == digest_of((run.number, keys)):
                return frozenset(keys[start : start + KEY_BYTES] for start in range(0, len(keys), KEY_BYTES))
        raise damaged(self._name, f"row {run.number} of orphans")

    def _wanted(self, found: Iterator[Stored], run: RunRecord) -> dict[bytes, int]:
        return {key: generation for _, key, generation, _ in self._sealed(found, "wanted", run)}

    def _entry(self, stored: Stored, run: RunRecord, orphans: frozenset[bytes]) -> Entry:
        decoded = self._decoded([stored], decode_result, "results", run)
        row, at = decoded[0]
        try:
            return to_entry(row, at=at, is_orphaned=row.key in orphans)
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged_row("results", stored[0], run, row.item_id) from error

    def _decoded(self, found: Iterator[Stored] | list[Stored], decode: Callable[[Stored], T | None], table: str, run: RunRecord) -> list[T]:
        """Decode rows that begin with their number; DamagedError names the first that is not what was written."""
        decoded = []
        for number, *values in found:
            row = decode(tuple(values)) if values[0] == run.number else None
            if row is None:
                item_id = values[HEAD + 6] if table == "results" else None  # it may itself be what is damaged
                raise self._damaged_row(table, number, run, item_id.decode(errors="replace") if isinstance(item_id, bytes) else None)
            decoded.append(row)
        return decoded

    def _sealed(self, found: Iterator[Stored], table: str, run: RunRecord) -> list[Stored]:
        rows = list(found)
        if not all(map(is_sealed, rows)):
            raise damaged(self._name, f"a row of {table} (run {run.id})")
        return rows

    def _damaged_row(self, table: str, row: int, run: RunRecord, item_id: str | None = None) -> Exception:
        item = "" if item_id is None else f", item {item_id!r:.80}"
        return damaged(self._name, f"row {row} of {table} (run {run.id}{item})")

    def _explain_missing(self, connection: sqlite3.Connection, run: RunRecord, row: int) -> None:
        self._read(connection, run)  # UnknownRunError if it was pruned meanwhile
        raise self._damaged_row("results", row, run)


def _padded(values: Sequence[object], length: int) -> list[object]:
    """Fill up with NULL, which no IN finds, so that a statement has one text for any number of values."""
    return [*values, *[None] * (length - len(values))]
