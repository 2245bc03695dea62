"""Outcomes of batch items: the first in memory, the others on disk, and sequences that read them on demand."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from marshal import dumps
from typing import Any, NamedTuple, overload

from graphmill.core.errors import Permanent
from graphmill.core.json import digest, json_bytes, to_json
from graphmill.core.result import Failure, Kind
from graphmill.engine.results.recorder import SpilledOutcomes
from graphmill.graph.run.scope import Room

_ITEM_CHARS = 100
_TEXT_CHARS = 500
MOST_KEPT = 10_000
MOST_KEPT_BYTES = 16 * 2**20
_CANCELLED = -(2**63)
_GOOD, _BAD = 1, 2
_WEIGHED = 8  # one outcome in so many
MOST_BROUGHT_IN = 64 * 2**20


class Outcome(NamedTuple):
    """The values that a node gave for an item, or its failure."""

    number: int
    item: Any
    values: Mapping[str, Any] | None
    failure: Failure | None
    attempts: int
    began_s: float
    ended_s: float

    @property
    def status(self) -> str:
        """The word for it."""
        if self.failure is None:
            return "succeeded"
        return "timed_out" if self.failure.kind is Kind.TIMEOUT else "failed"

    def result(self) -> dict[str, Any]:
        """Give it as one of ``results``."""
        return {**(self.values or {}), "item": self.item, "original_index": self.number}

    def error(self) -> dict[str, Any]:
        """Give it as one of ``errors``."""
        failure = self.failure
        return {
            "index": self.number,
            "item": self.item,
            "error": "" if failure is None else failure.message,
            "kind": "" if failure is None else str(failure.kind),
            "attempts": self.attempts,
        }

    def noted(self, redact: Callable[[Failure], Failure] | None) -> dict[str, Any]:
        """Return it as a short error to record; ``redact`` removes secrets, from the item too."""
        error, failure = self.error(), self.failure
        item = _text(self.item)
        if redact is not None and failure is not None:
            item = redact(replace(failure, message=item, traceback="")).message
        return {**error, "item": item[:_ITEM_CHARS], "error": error["error"][:_TEXT_CHARS]}

    def told(self) -> dict[str, Any]:
        """Give it as one of ``outcomes``."""
        told = {"result": self.result()} if self.failure is None else {"error": self.error()}
        return {"status": self.status, **told}


def cancelled() -> dict[str, Any]:
    """Give the outcome of an item that did not end."""
    return {"status": "cancelled", "error": None}


def _text(item: Any) -> str:
    try:
        return to_json(item)
    except (TypeError, ValueError, RecursionError):
        return repr(item)


class EndedItems:
    """Outcomes in the order of their ends; once there are many in memory, or large ones, the others go to pages, if there are any.

    ``holds_items`` says that the items are in memory for no other reason.
    """

    __slots__ = ("_holds_items", "_pages", "_room", "_size", "kept", "rest")

    def __init__(self, room: Room, *, holds_items: bool) -> None:
        self._room = room
        self._holds_items = holds_items
        self._size = 0
        self._pages: SpilledOutcomes | None = None  # once enough is kept
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

    def _put(self, outcome: Outcome, pages: SpilledOutcomes) -> None:
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

    def __init__(self, pages: SpilledOutcomes, kept: list[Outcome]) -> None:
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

    def __init__(
        self, pages: SpilledOutcomes, kept: list[Outcome], places: array[int], ends: bytearray, put: int
    ) -> None:
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


class BatchSequence(Sequence[Any]):
    """Entries in their order, read-only: ``part`` of each outcome, or all of it; ``name`` is what messages call it."""

    __slots__ = ("_name", "_numbers", "_part", "_shelf")

    def __init__(self, name: str, shelf: Shelf, numbers: array[int] | range, part: str | None = None) -> None:
        self._name = name
        self._shelf = shelf
        self._numbers = numbers
        self._part = part

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self._entry(number) for number in self._numbers[index]]
        return self._entry(self._numbers[index])

    def __iter__(self) -> Iterator[Any]:
        return map(self._entry, self._numbers)

    def __repr__(self) -> str:
        return f"<{self._name}: {len(self):,} entries>"

    def tolist(self) -> list[Any]:
        """Bring all entries in; Permanent if that is too much."""
        found, size = [], 0
        for number in self._numbers:
            outcome, more = self._shelf.weighed(number)
            size += more
            if size > MOST_BROUGHT_IN:
                raise Permanent(
                    f"{self._name} has {len(self):,} entries, of more than {MOST_BROUGHT_IN // 2**20} MB, too much to bring in at once; "
                    "go over it with the items of a batch, take one entry by its index, or make it an output"
                )
            found.append(outcome if self._part is None else outcome[self._part])
        return found

    def key(self) -> bytes:
        """Hash what is in it, without reading it: the same entries in the same order have the same key."""
        numbers = b"" if isinstance(self._numbers, range) else self._numbers.tobytes()
        return digest(f"{self._part} {len(self)} ".encode() + self._shelf.key() + numbers)

    def _entry(self, number: int) -> Any:
        outcome = self._shelf[number]
        return outcome if self._part is None else outcome[self._part]


class OutputSequence(BatchSequence):
    """The same as a job's output, which may be of any size."""

    __slots__ = ()

    def tolist(self) -> list[Any]:
        """Bring all entries in."""
        return list(self)

    @classmethod
    def of(cls, sequence: BatchSequence) -> list[Any] | OutputSequence:
        """Give what is not too much as a plain list."""
        try:
            return sequence.tolist()
        except Permanent:
            return cls(sequence._name, sequence._shelf, sequence._numbers, sequence._part)


def brought_in(params: Any, *, but: Collection[str] = ()) -> Any:
    """Put plain lists in the place of sequences, at any depth; what holds none is given back as it is. Permanent if that is too much.

    A param named in ``but`` stays a sequence if it is one.
    """
    kept = {name: params[name] for name in but if isinstance(params.get(name), BatchSequence)}
    if not kept:
        return _replaced(params, BatchSequence.tolist)
    return _replaced({name: entry for name, entry in params.items() if name not in kept}, BatchSequence.tolist) | kept


def outward(value: Any) -> Any:
    """Give what a job gives to others: sequences are plain lists there too, unless they are large."""
    return _replaced(value, OutputSequence.of)


def _replaced(value: Any, replace: Callable[[BatchSequence], Any]) -> Any:
    if isinstance(value, BatchSequence):
        return replace(value)
    if isinstance(value, dict):
        made = {key: _replaced(entry, replace) for key, entry in value.items()}
        return made if any(made[key] is not entry for key, entry in value.items()) else value
    if isinstance(value, list):
        entries = [_replaced(entry, replace) for entry in value]
        return entries if any(new is not old for new, old in zip(entries, value, strict=True)) else value
    return value
