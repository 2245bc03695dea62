"""What readers ask of a store in SQLite: short looks at one state of the database each, and every value checked."""

from __future__ import annotations

import sqlite3
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from graphmill.core.json import KEY_BYTES
from graphmill.journal.bodies import in_order
from graphmill.journal.records import Entry, ItemHistory, Query, ResultCount, RunRecord, RunRequest, StoredCall
from graphmill.journal.run_id import meant_run
from graphmill.journal.scratch import held_before, held_path
from graphmill.journal.sqlite.calls import CallReader
from graphmill.journal.sqlite.database import Database
from graphmill.journal.sqlite.faults import damaged
from graphmill.journal.sqlite.lookup import SqliteLookup
from graphmill.journal.sqlite.rows import (
    FLAGGED_DEGRADED,
    FLAGGED_PARTIAL,
    HEAD,
    KIND_CODES,
    KINDS,
    STATUS_CODES,
    STATUSES,
    RowDecoder,
    Stored,
    bytes_of,
    digest_of,
)
from graphmill.journal.sqlite.run_row import StoredRun, read_manifest, read_named, read_run, read_runs
from graphmill.journal.sqlite.statements import SOME, SQL, padded


class SqliteArchive:
    """Reads one database; from any thread."""

    def __init__(self, database: Database, folder_of: Callable[[str], Path]) -> None:
        self._database = database
        self._name = database.name
        self._folder_of = folder_of  # of a run

    def runs(self) -> Sequence[RunRecord]:
        """List the runs, oldest first."""
        with self._database.reading() as connection:
            return [self._record(connection, run) for run in read_runs(connection, self._name)]

    def find(self, name: str) -> RunRecord:
        """Find a run by its id or the beginning of it."""
        record = self._find(name)
        if record.is_interrupted:  # unless its process ended in order after its row was read
            record = self._find(name)
        return record

    def _find(self, name: str) -> RunRecord:
        with self._database.reading() as connection:
            return self._record(connection, self._meant(connection, name))

    def counts(self, run: RunRecord) -> Sequence[ResultCount]:
        """Count the current results."""
        with self._database.reading() as connection:
            stored = self._read(connection, run)
            counter = Counter((head[4], head[5], head[2]) for head in self._heads(connection, run, stored))
        return [
            ResultCount(
                STATUSES[status], KINDS[kind], generation, count, kind in FLAGGED_DEGRADED, kind in FLAGGED_PARTIAL
            )
            for (status, kind, generation), count in counter.items()
        ]

    def count_since(self, run: RunRecord, at: float) -> int:
        """Count the results since this time."""
        with self._database.reading() as connection:
            stored = self._read(connection, run)
            found: int = connection.execute(
                SQL["results_since"], (stored.number, stored.first, stored.last, at)
            ).fetchone()[0]
            return found

    def entries(self, run: RunRecord, query: Query) -> Iterator[Entry]:
        """Read current results in input order; holds only row numbers, and no transaction while the caller works."""
        rows, orphans = self._matching(run, query)
        decoder = RowDecoder(self._name, run)
        for stored in self._results(run, rows):
            yield decoder.entry(stored, orphans)

    def _results(self, run: RunRecord, rows: array[int]) -> Iterator[Stored]:
        """Read these results, a page at a time."""
        for start in range(0, len(rows), SOME):
            some = rows[start : start + SOME]
            with self._database.reading() as connection:
                stored = connection.execute(SQL["results_by_row"], padded(some.tolist(), SOME)).fetchall()
                # The number of a deleted row may be given again.
                found = {row[0]: row for row in stored if row[1] == run.number}
                if len(found) < len(some):
                    self._explain_missing(connection, run, next(row for row in some if row not in found))
            for row in some:
                yield found[row]

    def history(self, run: RunRecord, key: bytes, *, with_calls: bool = False) -> ItemHistory:
        """Read everything about one item; its calls of models only if they are wanted."""
        decoder, place = RowDecoder(self._name, run), (run.number, key)
        with self._database.reading() as connection:
            stored = self._read(connection, run)
            self._database.verify_once(connection, stored)
            orphans = self._orphans(connection, stored)
            heads = decoder.heads(connection.execute(SQL["next_heads"], (run.number, stored.first, stored.last, -1)))
            results = self._of_rows(connection, "results_by_row", [head[-1] for head in heads if head[1] == key])
            step_heads = decoder.step_heads(connection.execute(SQL["step_heads"], (run.number,)))
            notes = decoder.notes(
                attempts=connection.execute(SQL["history_attempts"], place),
                steps=self._of_rows(connection, "steps_by_row", [head[-1] for head in step_heads if head[1] == key]),
                suspects=connection.execute(SQL["suspect"], place),
            )
            return ItemHistory(
                entries=[decoder.entry(row, orphans) for row in results],
                wanted=decoder.wanted(connection.execute(SQL["wanted_one"], place)).get(key, 0),
                attempts=notes.attempts,
                steps=in_order(notes.steps, decoder.last_steps(results)),
                suspect=notes.suspect,
                calls=self._calls(connection, stored, key) if with_calls else (),
            )

    def histories(self, run: RunRecord, query: Query, *, with_calls: bool = True) -> Iterator[ItemHistory]:
        """Read everything about many items in input order, each at the same cost."""
        rows, orphans = self._matching(run, query)
        with closing(self.lookup(run)) as lookup:
            for stored in self._results(run, rows):
                yield lookup.history(stored, orphans, with_calls=with_calls)

    def lookup(self, run: RunRecord) -> SqliteLookup:
        """Prepare to look up many items of a run."""
        return SqliteLookup(self._database, run)

    def ask(self, run: RunRecord, request: RunRequest) -> None:
        """Ask something of a live run."""
        with self._database.writing() as connection:
            values = (
                self._read(connection, run).number,
                bytes_of(request.word),
                bytes_of(request.argument),
                self._database.clock() + 0.0,
            )
            connection.execute(SQL["insert_request"], (*values, digest_of(values)))

    def _calls(self, connection: sqlite3.Connection, run: StoredRun, key: bytes) -> list[StoredCall]:
        reader = CallReader(connection, run.number, self._name)
        rows = [row for row, keys in reader.heads(written=run.calls) if key in keys]
        return [call for row in rows for call in reader.calls(row, key)]

    @staticmethod
    def _of_rows(connection: sqlite3.Connection, statement: str, rows: list[int]) -> list[Stored]:
        found: list[Stored] = []
        for start in range(0, len(rows), SOME):
            found += connection.execute(SQL[statement], padded(rows[start : start + SOME], SOME)).fetchall()
        return sorted(found, key=lambda stored: (stored[3], stored[0]))  # by generation, then as they were recorded

    def _read(self, connection: sqlite3.Connection, run: RunRecord) -> StoredRun:
        return read_run(connection, run.number, run.id, self._name)

    def _meant(self, connection: sqlite3.Connection, name: str) -> StoredRun:
        named = read_named(connection, name, self._name)
        if named is not None:
            return named
        runs = {run.name: run for run in read_runs(connection, self._name)}
        return runs[meant_run(name, list(runs), store=self._name)]

    def _record(self, connection: sqlite3.Connection, run: StoredRun) -> RunRecord:
        is_owned = self._database.owners.is_owned(run.number)
        held_nano = 0 if is_owned else held_before(held_path(self._folder_of(run.name), run.number))
        return run.record(read_manifest(connection, run, self._name), is_owned=is_owned, held_nano=held_nano)

    def _matching(self, run: RunRecord, query: Query) -> tuple[array[int], frozenset[bytes]]:
        takes = _filter_of(query)
        end = None if query.limit is None else query.offset + query.limit
        rows = array("q")
        with self._database.reading() as connection:
            stored = self._read(connection, run)
            named = None if query.id_prefix is None else self._named(connection, stored, query.id_prefix)
            for head in self._heads(connection, run, stored):
                if takes(head) and (named is None or head[HEAD + 1] in named):
                    rows.append(head[HEAD + 1])
            return rows[query.offset : end], self._orphans(connection, stored)

    @staticmethod
    def _named(connection: sqlite3.Connection, run: StoredRun, prefix: str) -> set[int]:
        """Return the rows of items whose ids begin like this."""
        start = bytes_of(prefix)
        place = (run.number, run.first, run.last, len(start), start)
        return {row for (row,) in connection.execute(SQL["results_by_prefix"], place)}

    def _orphans(self, connection: sqlite3.Connection, run: StoredRun) -> frozenset[bytes]:
        if not run.orphans:
            return frozenset()
        for keys, digest in connection.execute(SQL["orphans"], (run.number,)):
            if digest == digest_of((run.number, keys)):
                return frozenset(keys[start : start + KEY_BYTES] for start in range(0, len(keys), KEY_BYTES))
        raise damaged(self._name, f"row {run.number} of orphans")

    def _heads(self, connection: sqlite3.Connection, run: RunRecord, stored: StoredRun) -> Iterator[Stored]:
        """Return the current results without their bodies, in input order."""
        found = connection.execute(SQL["heads"], (stored.number, stored.first, stored.last) * 2)
        return (
            head for head in RowDecoder(self._name, run).all_heads(found, written=stored.rows) if head[2] >= head[-1]
        )

    def _explain_missing(self, connection: sqlite3.Connection, run: RunRecord, row: int) -> None:
        self._read(connection, run)  # UnknownRunError if it was pruned meanwhile
        raise RowDecoder(self._name, run).damaged_row("results", row)


def _filter_of(query: Query) -> Callable[[Stored], bool]:
    """Return what tells from a result's head whether the query selects it."""
    statuses = None if query.statuses is None else {STATUS_CODES[status] for status in query.statuses}
    kinds = None if query.kinds is None else {KIND_CODES[kind] for kind in query.kinds}

    def takes(head: Stored) -> bool:
        position, status, kind = head[3:6]
        if query.position is not None and position != query.position:
            return False
        if position < query.from_position or head[2] < query.from_generation:
            return False
        if query.is_degraded and kind not in FLAGGED_DEGRADED:
            return False
        if query.or_partial and kind in FLAGGED_PARTIAL:
            return True
        return (statuses is None or status in statuses) and (kinds is None or kind in kinds)

    return takes
