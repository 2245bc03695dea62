"""Which items of a source have been read: by their keys, on disk, and by their rows, one bit each."""

from __future__ import annotations

import sqlite3
from itertools import groupby
from struct import Struct

_BITS = 21  # address a byte of the filter: with a million keys, one new key in seventy is taken for a known one
_UNUSED = 32 - _BITS
_numbers = Struct("<II").unpack_from
_WAITING = 10_000  # stored in their order, many go to one page
# One statement for all, which leaves Python's lock to the run: they come side by side in one value.
_STORE = """
WITH RECURSIVE places (place) AS (
  SELECT 1 UNION ALL SELECT place + :length FROM places WHERE place + :length < length(:keys)
)
INSERT INTO seen SELECT substr(:keys, place, :length), 1 FROM places
"""


class SeenKeys:
    """Counts keys. Not for two threads at once.

    A filter in memory recognises new keys, as nearly all are; only a key that may be known is looked up on disk.
    """

    def __init__(self) -> None:
        # The empty name is a private file that SQLite unlinks as soon as it is open.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("CREATE TABLE seen (key BLOB PRIMARY KEY, times INTEGER NOT NULL) WITHOUT ROWID")
        self._database.execute("BEGIN")
        self._filter = bytearray(2**_BITS)
        self._new: list[bytes] = []
        self._is_used = False

    def add(self, key: bytes) -> int:
        """Count a key; return how often it has been seen by now, this time included."""
        self._is_used = True
        bits, (first, second) = self._filter, _numbers(key)  # _places, without a call
        one, bit, two, other = first >> _UNUSED, 1 << (first & 7), second >> _UNUSED, 1 << (second & 7)
        if bits[one] & bit and bits[two] & other:
            return self._again(key)
        bits[one] |= bit
        bits[two] |= other
        self._new.append(key)
        if len(self._new) >= _WAITING:
            self._store()
        return 1

    def __contains__(self, key: bytes) -> bool:
        if not self._is_used:
            return False
        one, bit, two, other = _places(key)
        if not (self._filter[one] & bit and self._filter[two] & other):
            return False
        self._store()
        return self._database.execute("SELECT 1 FROM seen WHERE key = ?", (key,)).fetchone() is not None

    def close(self) -> None:
        """Forget them all."""
        self._database.close()

    def _again(self, key: bytes) -> int:
        self._store()
        statement = "INSERT INTO seen VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET times = times + 1 RETURNING times"
        return int(self._database.execute(statement, (key,)).fetchone()[0])

    def _store(self) -> None:
        self._new.sort()
        self._new.sort(key=len)
        for length, keys in groupby(self._new, len):
            self._database.execute(_STORE, {"keys": b"".join(keys), "length": length})
        self._new.clear()


def _places(key: bytes) -> tuple[int, int, int, int]:
    """Return the two bits of a key, each as its byte and its mask."""
    first, second = _numbers(key)
    return first >> _UNUSED, 1 << (first & 7), second >> _UNUSED, 1 << (second & 7)


class SeenRows:
    """Which rows were seen."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, number: int) -> bool:
        """Mark a number; return whether it was not marked before."""
        place, bit = number >> 3, 1 << (number & 7)
        if place >= len(self._bits):
            self._bits.extend(bytes(max(1024, place + 1 - len(self._bits))))
        if self._bits[place] & bit:
            return False
        self._bits[place] |= bit
        return True

    def __contains__(self, number: int) -> bool:
        place = number >> 3
        return place < len(self._bits) and bool(self._bits[place] & 1 << (number & 7))
