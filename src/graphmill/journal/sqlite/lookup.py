"""Looks up many recorded items by their keys, although keys have no index."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from graphmill.core.result import Status
from graphmill.journal.bodies import in_order
from graphmill.journal.records import ItemHistory, ItemNotes, RecordedOutcome, RunRecord, StepRow, StoredCall
from graphmill.journal.sqlite.calls import CallReader
from graphmill.journal.sqlite.database import Database, reading
from graphmill.journal.sqlite.faults import translate_errors
from graphmill.journal.sqlite.rows import FLAGGED_PARTIAL, HEAD, KINDS, STATUS_CODES, STATUSES, RowDecoder, Stored
from graphmill.journal.sqlite.run_row import StoredRun, read_run
from graphmill.journal.sqlite.statements import MANY, SOME, SQL, padded

_PAGE = 1000
_MAX_HELD = 8000
_ROW = HEAD + 1  # where a head tells its row
_KEY, _GENERATION = 2, 3  # in a whole result, after its row and run
_SUCCEEDED = STATUS_CODES[Status.SUCCEEDED]


class SqliteLookup:
    """Looks up recorded items on its own connection, whose temporary tables of sorted keys vanish with it."""

    def __init__(self, database: Database, run: RunRecord) -> None:
        self._database = database
        self._run = run
        self._decoder = RowDecoder(database.name, run)
        self._connection: sqlite3.Connection | None = None
        self._has_scanned = self._has_results = self._has_steps = False
        self._calls_reader: CallReader | None = None

    def settled(self, keys: Sequence[bytes], contents: Sequence[bytes]) -> Sequence[int | None]:
        """Return the rows of those that come by and have succeeded as they are."""
        with translate_errors(self._database.name):
            self._opened()
            if self._stored.wanted or self._run.generation > 1:
                return [None] * len(keys)
            return self._reader.settled(keys, contents)

    def outcomes(self, keys: Sequence[bytes]) -> Mapping[bytes, RecordedOutcome]:
        """Return which of these items have a result."""
        with translate_errors(self._database.name):
            connection = self._opened()
            found = self._reader.take(keys)
            missing = [key for key in keys if key not in found]
            for start in range(0, len(missing), MANY):
                for head in self._decoder.heads(self._looked_for(connection, missing[start : start + MANY])):
                    found[head[1]] = head  # the newest comes last
            wanted = self._wanted(connection, list(found)) if self._stored.wanted else {}
        return {key: _outcome(head, wanted.get(key, 0)) for key, head in found.items()}

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """List the current results."""
        with translate_errors(self._database.name):
            connection = self._opened()
            found = connection.execute(SQL["heads"], self._place * 2)
            for head in self._decoder.all_heads(found, written=self._stored.rows):
                if head[2] >= head[-1]:
                    yield head[_ROW], head[1]

    def notes(self, key: bytes) -> ItemNotes:
        """Read what is recorded of an item beside its results."""
        with translate_errors(self._database.name):
            connection = self._opened()
            self._sort_steps(connection)
            return self._decoder.notes(
                attempts=connection.execute(SQL["history_attempts"], (self._run.number, key)),
                steps=connection.execute(SQL["look_up_steps"], (key,)),
                suspects=connection.execute(SQL["suspect"], (self._run.number, key)),
            )

    def last_steps(self, key: bytes) -> Sequence[StepRow]:
        """Read the steps that an item's results hold."""
        with translate_errors(self._database.name):
            stored = self._all_results(self._opened(), key)
        return self._decoder.last_steps(stored)

    def history(self, current: Stored, orphans: frozenset[bytes], *, with_calls: bool) -> ItemHistory:
        """Read everything about the item of a current result."""
        key: bytes = current[_KEY]
        notes = self.notes(key)
        with translate_errors(self._database.name):
            connection = self._opened()
            results = [current]
            if current[_GENERATION] > 1:
                results = self._all_results(connection, key)
            return ItemHistory(
                entries=[self._decoder.entry(row, orphans) for row in results],
                wanted=self._wanted(connection, [key]).get(key, 0) if self._stored.wanted else 0,
                attempts=notes.attempts,
                steps=in_order(notes.steps, self._decoder.last_steps(results)),
                suspect=notes.suspect,
                calls=self._calls(connection, key) if with_calls else (),
            )

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    @cached_property
    def _reader(self) -> _ResultReader:
        """Made when results are asked for: whoever wants notes alone need not pass over the rows."""
        return _ResultReader(self._opened(), self._stored, self._decoder)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._database.connect()
            self._stored = read_run(self._connection, self._run.number, self._run.id, self._database.name)
            self._database.verify_once(self._connection, self._stored)
            self._place = (self._stored.number, self._stored.first, self._stored.last)
        return self._connection

    def _looked_for(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> sqlite3.Cursor:
        """Find results that the reader has not met; once, by a scan, where all were read: then few are missing."""
        if self._reader.has_seen_all and not self._has_scanned:
            self._has_scanned = True  # to sort takes as long as three scans
            return connection.execute(SQL["scan_results"], (*self._place, *padded(keys, MANY)))
        self._sort_results(connection)
        return connection.execute(SQL["look_up_results"], padded(keys, MANY))

    def _all_results(self, connection: sqlite3.Connection, key: bytes) -> list[Stored]:
        """Read an item's results of all generations."""
        self._sort_results(connection)
        heads = list(self._decoder.heads(connection.execute(SQL["look_up_results"], padded([key], MANY))))
        rows = sorted(head[_ROW] for head in heads)
        return [connection.execute(SQL["results_by_row"], padded([row], SOME)).fetchone() for row in rows]

    def _calls(self, connection: sqlite3.Connection, key: bytes) -> list[StoredCall]:
        if self._calls_reader is None:
            self._calls_reader = reader = CallReader(connection, self._run.number, self._database.name)
            connection.execute(SQL["make_call_lookup"])
            with reading(connection):  # a live run writes more of them meanwhile
                stored = read_run(connection, self._run.number, self._run.id, self._database.name)
                places = [(of, row) for row, keys in reader.heads(written=stored.calls) for of in keys]
            connection.executemany(SQL["fill_call_lookup"], sorted(places))
        rows = connection.execute(SQL["look_up_calls"], (key,)).fetchall()
        return [call for (row,) in rows for call in self._calls_reader.calls(row, key)]

    def _sort_results(self, connection: sqlite3.Connection) -> None:
        if not self._has_results:
            self._reader.pass_over_the_rest()  # an item whose key is damaged is not one that has no result
            connection.execute(SQL["make_result_lookup"])
            connection.execute(SQL["fill_result_lookup"], self._place)
            self._has_results = True

    def _sort_steps(self, connection: sqlite3.Connection) -> None:
        if not self._has_steps:
            connection.execute(SQL["make_step_lookup"])
            heads = self._decoder.step_heads(connection.execute(SQL["step_heads"], (self._run.number,)))
            connection.executemany(SQL["fill_step_lookup"], sorted((head[1], head[-1]) for head in heads))
            self._has_steps = True

    def _wanted(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, int]:
        found: dict[bytes, int] = {}
        for start in range(0, len(keys), MANY):
            some = padded([self._run.number, *keys[start : start + MANY]], MANY + 1)
            found |= self._decoder.wanted(connection.execute(SQL["wanted_of"], some))
        return found


def _outcome(head: Stored, wanted: int) -> RecordedOutcome:
    is_partial = head[5] in FLAGGED_PARTIAL
    return RecordedOutcome(head[_ROW], head[2], STATUSES[head[4]], head[6], wanted, KINDS[head[5]], is_partial)


class _ResultReader:
    """Reads results as they were written, a little ahead of whoever asks for them.

    Items are mostly done in the order of their source, so that the next to be asked for are the next that come by.
    """

    def __init__(self, connection: sqlite3.Connection, run: StoredRun, decoder: RowDecoder) -> None:
        self._connection = connection
        self._run = run
        self._decoder = decoder
        self._heads: dict[bytes, Stored] = {}
        self._next = run.first
        (generations,) = connection.execute(SQL["newest_generation"], (run.number, run.first, run.last)).fetchone()
        # With several generations the first row of an item that comes by need not be the one that counts.
        self._is_of_use = generations == 1

    @property
    def has_seen_all(self) -> bool:
        """Whether every result was read, and held until it was asked for."""
        return self._is_of_use and self._next > self._run.last

    def settled(self, keys: Sequence[bytes], contents: Sequence[bytes]) -> list[int | None]:
        """Return the rows of those that succeeded with this content, and forget them; keep the others."""
        rows: list[int | None] = []
        heads = self._heads
        for key, content in zip(keys, contents, strict=True):
            if key in heads or self._meets(key):
                head = heads[key]
                if head[4] == _SUCCEEDED and head[6] == content:
                    del heads[key]
                    rows.append(head[_ROW])
                    continue
            rows.append(None)
        return rows

    def take(self, keys: Sequence[bytes]) -> dict[bytes, Stored]:
        """Return the results of these that are met, and forget them."""
        return {key: self._heads.pop(key) for key in dict.fromkeys(keys) if self._meets(key)}

    def _meets(self, key: bytes) -> bool:
        """Read on until a result is there; return whether it is."""
        while key not in self._heads and self._is_of_use and self._next <= self._run.last:
            self._read()
        return key in self._heads

    def pass_over_the_rest(self) -> None:
        """Check what has not come by; it will not any more."""
        rest = self._connection.execute(SQL["next_heads"], (self._run.number, self._next, self._run.last, -1))
        deque(self._decoder.heads(rest), maxlen=0)
        self._next = self._run.last + 1

    def _read(self) -> None:
        if len(self._heads) > _MAX_HELD:  # this is not the order in which they are asked for
            self._is_of_use = False
            self._heads.clear()
            return
        page = self._connection.execute(
            SQL["next_heads"], (self._run.number, self._next, self._run.last, _PAGE)
        ).fetchall()
        for head in self._decoder.heads(page):
            self._heads[head[1]] = head
        self._next = page[-1][_ROW] + 1 if len(page) == _PAGE else self._run.last + 1
