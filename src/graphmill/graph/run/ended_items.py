"""What became of a batch's items so far: the first of them in memory, the others put aside."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable
from marshal import dumps
from typing import Any

from graphmill.core.errors import Permanent
from graphmill.core.json import digest, json_bytes
from graphmill.engine.recorder import Pages
from graphmill.graph.run.outcome import Outcome, cancelled
from graphmill.graph.run.place import Room

MOST_KEPT = 10_000
MOST_KEPT_BYTES = 16 * 2**20
_CANCELLED = -(2**63)
_GOOD, _BAD = 1, 2
_WEIGHED = 8  # one outcome in so many


class EndedItems:
    """Outcomes in the order of their ends; once there are many in memory, or large ones, the others go to pages, if there are any.

    ``holds_items`` says that the items are in memory for no other reason.
    """

    __slots__ = ("_holds_items", "_pages", "_room", "_size", "kept", "rest")

    def __init__(self, room: Room, *, holds_items: bool) -> None:
        self._room = room
        self._holds_items = holds_items
        self._size = 0
        self._pages: Pages | None = None  # once enough is kept
        self.kept: list[Outcome] = []
        self.rest: Rest | None = None

    def __len__(self) -> int:
        return len(self.kept) if self.rest is None else len(self.rest.numbers)

    def add(self, outcome: Outcome) -> None:
        """Take what became of an item."""
        if self._pages is not None:
            self._put(outcome, self._pages)
            return
        self.kept.append(outcome)
        if self._room.pages is not None and self._is_enough(outcome):
            self._pages = self._room.pages

    def _put(self, outcome: Outcome, pages: Pages) -> None:
        if self.rest is None:
            self._room.is_used = True
            self.rest = Rest(pages, self.kept)
        self.rest.add(outcome)

    def _is_enough(self, newest: Outcome) -> bool:
        if len(self.kept) % _WEIGHED == 1:
            self._size += _WEIGHED * _weight((newest.values, self._holds_items and newest.item))
        return len(self.kept) >= MOST_KEPT or self._size >= MOST_KEPT_BYTES


def _weight(value: Any) -> int:
    """Tell about how many bytes a value takes; nothing, if it is no plain data."""
    try:
        return len(dumps(value))
    except ValueError:
        return 0


class Rest:
    """Where each outcome is, in the order of their ends: on the pages, or, below nought, among those that are kept."""

    def __init__(self, pages: Pages, kept: list[Outcome]) -> None:
        self._pages = pages
        self._kept = kept
        self.numbers = array("q")
        self.places = array("q")
        self.is_good = bytearray()
        self.seconds = array("d")
        self.began_s, self.ended_s = float("inf"), 0.0
        self._put = 0  # a sum of hashes: the same in whatever order items end
        for place, outcome in enumerate(kept):
            self._note(outcome, ~place)

    def add(self, outcome: Outcome) -> None:
        """Put an outcome aside; what can not be, such as an item that is no data, is kept."""
        try:
            body = json_bytes(outcome.told())
            place = self._pages.put(body)
        except (TypeError, ValueError, RecursionError, Permanent):
            place = None
        if place is None:
            place = ~len(self._kept)
            self._kept.append(outcome)
        else:
            self._put += _hash(outcome.number, body)
        self._note(outcome, place)

    def _note(self, outcome: Outcome, place: int) -> None:
        self.numbers.append(outcome.number)
        self.places.append(place)
        self.is_good.append(outcome.failure is None)
        self.seconds.append(outcome.ended_s - outcome.began_s)
        self.began_s, self.ended_s = min(self.began_s, outcome.began_s), max(self.ended_s, outcome.ended_s)

    def shelf(self, count: int) -> Shelf:
        """Give the outcomes of all items by their numbers."""
        places, ends = array("q", [_CANCELLED]) * count, bytearray(count)
        for number, place, is_good in zip(self.numbers, self.places, self.is_good, strict=True):
            places[number] = place
            ends[number] = _GOOD if is_good else _BAD
        return Shelf(self._pages, self._kept, places, ends, self._put)


def _hash(number: int, body: bytes) -> int:
    return int.from_bytes(digest(number.to_bytes(8, "little") + body), "little")


def _body(outcome: Outcome) -> bytes:
    try:
        return json_bytes(outcome.told())
    except (TypeError, ValueError, RecursionError, Permanent):  # such as an item that is no data
        return b""


class Shelf:
    """The outcomes of all items of a batch that is over, by number."""

    __slots__ = ("_ends", "_kept", "_key", "_pages", "_places", "_put")

    def __init__(self, pages: Pages, kept: list[Outcome], places: array[int], ends: bytearray, put: int) -> None:
        self._pages = pages
        self._kept = kept
        self._places = places
        self._ends = ends
        self._put = put
        self._key: bytes | None = None

    def key(self) -> bytes:
        """Hash all outcomes, whether in memory or put aside."""
        if self._key is None:
            total = self._put + sum(_hash(outcome.number, _body(outcome)) for outcome in self._kept)
            self._key = digest(b"%x %d" % (total, len(self._ends)))
        return self._key

    def good(self, numbers: Iterable[int]) -> array[int]:
        """Give those of these items that have succeeded."""
        return array("q", (number for number in numbers if self._ends[number] == _GOOD))

    def bad(self) -> array[int]:
        """Give the items that have failed."""
        return array("q", (number for number, end in enumerate(self._ends) if end == _BAD))

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self.weighed(number)[0]

    def weighed(self, number: int) -> tuple[dict[str, Any], int]:
        """Give an outcome, and how many bytes are to be brought in for it."""
        place = self._places[number]
        if place >= 0:
            body = self._pages.get(place)
            return json.loads(body), len(body)
        return (cancelled() if place == _CANCELLED else self._kept[~place].told()), 0
