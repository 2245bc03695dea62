"""Model calls in the database: alike ones share a row; one of the first is the compression dictionary."""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from graphmill.core.json import KEY_BYTES
from graphmill.journal.records import CallRow, StoredCall
from graphmill.journal.sqlite.faults import damaged
from graphmill.journal.sqlite.rows import Stored, digest_of
from graphmill.journal.sqlite.statements import SQL

_LEVEL = 3  # a third of the time of the usual level, for a tenth more space
_DICTIONARY_BYTES = 32_000  # as far back as zlib looks: what comes first in each call is found in the dictionary
_MOST_CALLS = 64
_MOST_BYTES = 64 * 1024  # of one row; who reads one call reads all of them
_MOST_SHAPES = 64
_HELD_ROWS = 128
_NUMBERS = re.compile(r"\d+")


class CallGroup:
    """Calls that share a row, and the number of the row once it is written."""

    __slots__ = ("body", "row", "shape", "stored")

    def __init__(self, shape: str, body: bytes, stored: Stored) -> None:
        self.shape = shape
        self.body = body
        self.stored = stored
        self.row = 0


class CallPacker:
    """Packs the calls of a run, for one owner."""

    def __init__(self, run: int) -> None:
        self._run = run
        self._bases: dict[str, tuple[int, Any]] = {}

    def pack(self, rows: Sequence[CallRow]) -> list[CallGroup]:
        """Group calls of the same step, and compress them."""
        packed = []
        for shape, alike in groupby(sorted(rows, key=_shape_of), _shape_of):
            base, compressor = self._bases.get(shape, (0, None))
            for keys, body in _chunks(alike):
                if compressor is None:
                    small = zlib.compress(body, _LEVEL)
                else:
                    primed = compressor.copy()
                    small = primed.compress(body) + primed.flush()
                values = (self._run, base, keys)
                packed.append(CallGroup(shape, body, (*values, digest_of((*values, small)), small)))
        return packed

    def learn(self, written: Sequence[CallGroup]) -> None:
        """Use the first durable calls of a step as the dictionary of its later ones."""
        for group in written:
            if group.shape not in self._bases and len(self._bases) < _MOST_SHAPES:
                dictionary = group.body[:_DICTIONARY_BYTES]
                self._bases[group.shape] = (group.row, zlib.compressobj(_LEVEL, zdict=dictionary))


def _shape_of(row: CallRow) -> str:
    return _shape(row.path)


@lru_cache(maxsize=1024)
def _shape(path: str) -> str:
    """Return the path of a step without the numbers of rounds and items."""
    return _NUMBERS.sub("", path)


def _chunks(rows: Iterator[CallRow]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and the lines of as many calls as fit into a row."""
    keys: list[bytes] = []
    lines: list[bytes] = []
    size = 0
    for row in rows:
        line = b"%d %b" % (row.generation, row.encode())
        if keys and (len(keys) == _MOST_CALLS or size + len(line) > _MOST_BYTES):
            yield b"".join(keys), b"\n".join(lines)
            keys, lines, size = [], [], 0
        keys.append(row.key)
        lines.append(line)
        size += len(line)
    if keys:
        yield b"".join(keys), b"\n".join(lines)


class CallReader:
    """Reads the calls of one run on a connection; holds the rows that it has read last."""

    def __init__(self, connection: sqlite3.Connection, run: int, name: str) -> None:
        self._connection = connection
        self._run = run
        self._name = name
        self._lines = lru_cache(maxsize=_HELD_ROWS)(self._read_lines)
        self._dictionary = lru_cache(maxsize=_MOST_SHAPES)(self._read_dictionary)

    def heads(self, *, written: int) -> Iterator[tuple[int, list[bytes]]]:
        """Yield the number of each row and the keys of its calls; DamagedError at the end if some are missing."""
        count = 0
        for row, keys in self._connection.execute(SQL["call_heads"], (self._run,)):
            count += 1
            yield row, _split(keys)
        if count != written:
            raise damaged(self._name, f"the number of calls ({count} rows, where {written} were written)")

    def calls(self, row: int, key: bytes) -> list[StoredCall]:
        """Read the calls of an item in a row."""
        keys, lines = self._lines(row)
        return [_stored_call(line) for of, line in zip(keys, lines, strict=True) if of == key]

    def _read_lines(self, row: int) -> tuple[list[bytes], list[bytes]]:
        keys, body = self._read(row)
        return _split(keys), body.split(b"\n")

    def _read_dictionary(self, row: int) -> bytes:
        return self._read(row)[1][:_DICTIONARY_BYTES]

    def _read(self, row: int) -> tuple[bytes, bytes]:
        found = self._connection.execute(SQL["calls_by_row"], (row,)).fetchone()
        if found is None:
            raise self._damaged(row)
        run, base, keys, digest, body = found
        if run != self._run or digest != digest_of((run, base, keys, body)):
            raise self._damaged(row)
        if base:
            return keys, zlib.decompressobj(zdict=self._dictionary(base)).decompress(body)
        return keys, zlib.decompress(body)

    def _damaged(self, row: int) -> Exception:
        return damaged(self._name, f"row {row} of calls")


def _split(keys: bytes) -> list[bytes]:
    return [keys[start : start + KEY_BYTES] for start in range(0, len(keys), KEY_BYTES)]


def _stored_call(line: bytes) -> StoredCall:
    generation, _, body = line.partition(b" ")
    return StoredCall(int(generation), body)
