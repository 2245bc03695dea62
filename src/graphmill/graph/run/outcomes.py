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
from graphmill.graph.run.scope import SpillState

_ITEM_CHARS = 100
_TEXT_CHARS = 500
MAX_IN_MEMORY = 10_000
MAX_IN_MEMORY_BYTES = 16 * 2**20
_CANCELLED = -(2**63)
_GOOD, _BAD = 1, 2
_SIZED_EVERY = 8
MAX_LOADED_BYTES = 64 * 2**20


class ItemOutcome(NamedTuple):
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
        """The status of the item."""
        if self.failure is None:
            return "succeeded"
        if self.failure.kind is Kind.TIMEOUT:
            return "timed_out"
        return "failed"

    def result(self) -> dict[str, Any]:
        """Return it as an entry of ``results``."""
        return {**(self.values or {}), "item": self.item, "original_index": self.number}

    def error(self) -> dict[str, Any]:
        """Return it as an entry of ``errors``."""
        message, kind = "", ""
        if self.failure is not None:
            message, kind = self.failure.message, str(self.failure.kind)
        return {"index": self.number, "item": self.item, "error": message, "kind": kind, "attempts": self.attempts}

    def short_error(self, redact: Callable[[Failure], Failure] | None) -> dict[str, Any]:
        """Return it as a short error to record; ``redact`` removes secrets, from the item too."""
        error, failure = self.error(), self.failure
        item = _text(self.item)
        if redact is not None and failure is not None:
            item = redact(replace(failure, message=item, traceback="")).message
        return {**error, "item": item[:_ITEM_CHARS], "error": error["error"][:_TEXT_CHARS]}

    def to_json(self) -> dict[str, Any]:
        """Return it as an entry of ``outcomes``."""
        if self.failure is None:
            return {"status": self.status, "result": self.result()}
        return {"status": self.status, "error": self.error()}


def cancelled_outcome() -> dict[str, Any]:
    """Return the outcome of an item that did not end."""
    return {"status": "cancelled", "error": None}


def _text(item: Any) -> str:
    try:
        return to_json(item)
    except (TypeError, ValueError, RecursionError):
        return repr(item)


class EndedItems:
    """Outcomes in the order in which items ended; many or large ones are paged to disk.

    ``holds_items`` says that the items themselves are in memory only because of their outcomes.
    """

    __slots__ = ("_holds_items", "_pages", "_size", "_spill", "in_memory", "spilled")

    def __init__(self, spill: SpillState, *, holds_items: bool) -> None:
        self._spill = spill
        self._holds_items = holds_items
        self._size = 0
        self._pages: SpilledOutcomes | None = None  # set once memory is full
        self.in_memory: list[ItemOutcome] = []
        self.spilled: OutcomeIndex | None = None

    def __len__(self) -> int:
        return len(self.in_memory) if self.spilled is None else len(self.spilled.numbers)

    def add(self, outcome: ItemOutcome) -> None:
        """Add the outcome of an item."""
        if self._pages is not None:
            self._put(outcome, self._pages)
            return
        self.in_memory.append(outcome)
        if self._spill.pages is not None and self._is_full(outcome):
            self._pages = self._spill.pages

    def _put(self, outcome: ItemOutcome, pages: SpilledOutcomes) -> None:
        if self.spilled is None:
            self._spill.is_used = True
            self.spilled = OutcomeIndex(pages, self.in_memory)
        self.spilled.add(outcome)

    def _is_full(self, newest: ItemOutcome) -> bool:
        if len(self.in_memory) % _SIZED_EVERY == 1:
            self._size += _SIZED_EVERY * _estimate_bytes((newest.values, self._holds_items and newest.item))
        return len(self.in_memory) >= MAX_IN_MEMORY or self._size >= MAX_IN_MEMORY_BYTES


def _estimate_bytes(value: Any) -> int:
    """Estimate the size of a value; 0 if it is not plain data."""
    try:
        return len(dumps(value))
    except ValueError:
        return 0


class OutcomeIndex:
    """Where each outcome is, in the order in which items ended: at a place on the pages, or, if negative, in memory."""

    def __init__(self, pages: SpilledOutcomes, in_memory: list[ItemOutcome]) -> None:
        self._pages = pages
        self._in_memory = in_memory
        self.numbers = array("q")
        self.places = array("q")
        self.is_good = bytearray()
        self.seconds = array("d")
        self.began_s, self.ended_s = float("inf"), 0.0
        self._hash_sum = 0  # the same in whatever order items end
        for place, outcome in enumerate(in_memory):
            self._note(outcome, ~place)

    def add(self, outcome: ItemOutcome) -> None:
        """Put an outcome on disk; one that is not JSON stays in memory."""
        try:
            body = json_bytes(outcome.to_json())
            place = self._pages.put(body)
        except (TypeError, ValueError, RecursionError, Permanent):
            place = None
        if place is None:
            place = ~len(self._in_memory)
            self._in_memory.append(outcome)
        else:
            self._hash_sum += _hash(outcome.number, body)
        self._note(outcome, place)

    def _note(self, outcome: ItemOutcome, place: int) -> None:
        self.numbers.append(outcome.number)
        self.places.append(place)
        self.is_good.append(outcome.failure is None)
        self.seconds.append(outcome.ended_s - outcome.began_s)
        self.began_s, self.ended_s = min(self.began_s, outcome.began_s), max(self.ended_s, outcome.ended_s)

    def by_number(self, count: int) -> OutcomeTable:
        """Return the outcomes of all items by their numbers."""
        places, ends = array("q", [_CANCELLED]) * count, bytearray(count)
        for number, place, is_good in zip(self.numbers, self.places, self.is_good, strict=True):
            places[number] = place
            ends[number] = _GOOD if is_good else _BAD
        return OutcomeTable(self._pages, self._in_memory, places, ends, self._hash_sum)


def _hash(number: int, body: bytes) -> int:
    return int.from_bytes(digest(number.to_bytes(8, "little") + body), "little")


def _body(outcome: ItemOutcome) -> bytes:
    try:
        return json_bytes(outcome.to_json())
    except (TypeError, ValueError, RecursionError, Permanent):  # such as an item that is not JSON
        return b""


class OutcomeTable:
    """The outcomes of all items of a finished batch, by number."""

    __slots__ = ("_ends", "_hash_sum", "_in_memory", "_key", "_pages", "_places")

    def __init__(
        self, pages: SpilledOutcomes, in_memory: list[ItemOutcome], places: array[int], ends: bytearray, hash_sum: int
    ) -> None:
        self._pages = pages
        self._in_memory = in_memory
        self._places = places
        self._ends = ends
        self._hash_sum = hash_sum
        self._key: bytes | None = None

    def key(self) -> bytes:
        """Hash all outcomes, in memory and on disk."""
        if self._key is None:
            total = self._hash_sum + sum(_hash(outcome.number, _body(outcome)) for outcome in self._in_memory)
            self._key = digest(b"%x %d" % (total, len(self._ends)))
        return self._key

    def good(self, numbers: Iterable[int]) -> array[int]:
        """Return those of these items that succeeded."""
        return array("q", (number for number in numbers if self._ends[number] == _GOOD))

    def bad(self) -> array[int]:
        """Return the items that failed."""
        return array("q", (number for number, end in enumerate(self._ends) if end == _BAD))

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self.sized(number)[0]

    def sized(self, number: int) -> tuple[dict[str, Any], int]:
        """Return an outcome, and how many bytes were read from disk for it."""
        place = self._places[number]
        if place >= 0:
            body = self._pages.get(place)
            return json.loads(body), len(body)
        if place == _CANCELLED:
            return cancelled_outcome(), 0
        return self._in_memory[~place].to_json(), 0


class BatchSequence(Sequence[Any]):
    """A read-only list read on demand: ``part`` of each outcome, or all of it; messages use ``name``."""

    __slots__ = ("_name", "_numbers", "_part", "_table")

    def __init__(self, name: str, table: OutcomeTable, numbers: array[int] | range, part: str | None = None) -> None:
        self._name = name
        self._table = table
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
        """Load all entries; Permanent if they are too large for memory."""
        found, size = [], 0
        for number in self._numbers:
            outcome, more = self._table.sized(number)
            size += more
            if size > MAX_LOADED_BYTES:
                raise Permanent(
                    f"{self._name} has {len(self):,} entries of more than {MAX_LOADED_BYTES // 2**20} MB, too large to "
                    "load at once; use it as the items of a batch, take single entries by index, or make it an output"
                )
            found.append(self._part_of(outcome))
        return found

    def exported(self) -> list[Any] | OutputSequence:
        """Return a plain list if it is small enough."""
        try:
            return self.tolist()
        except Permanent:
            return OutputSequence(self._name, self._table, self._numbers, self._part)

    def key(self) -> bytes:
        """Hash the entries without reading them; the same entries in the same order have the same key."""
        numbers = self._numbers.tobytes() if isinstance(self._numbers, array) else b""
        return digest(f"{self._part} {len(self)} ".encode() + self._table.key() + numbers)

    def _entry(self, number: int) -> Any:
        return self._part_of(self._table[number])

    def _part_of(self, outcome: dict[str, Any]) -> Any:
        return outcome if self._part is None else outcome[self._part]


class OutputSequence(BatchSequence):
    """The same as the output of a job, which may be of any size."""

    __slots__ = ()

    def tolist(self) -> list[Any]:
        """Load all entries."""
        return list(self)


def load_sequences(params: Any, *, but: Collection[str] = ()) -> Any:
    """Replace sequences by plain lists, at any depth; Permanent if they are too large for memory.

    A param named in ``but`` stays a sequence if it is one. A value without sequences is returned as it is.
    """
    streamed = {name: params[name] for name in but if isinstance(params.get(name), BatchSequence)}
    if not streamed:
        return _replace(params, BatchSequence.tolist)
    others = {name: entry for name, entry in params.items() if name not in streamed}
    return _replace(others, BatchSequence.tolist) | streamed


def export_sequences(value: Any) -> Any:
    """Replace sequences in a job's output by plain lists, unless they are large."""
    return _replace(value, BatchSequence.exported)


def _replace(value: Any, convert: Callable[[BatchSequence], Any]) -> Any:
    if isinstance(value, BatchSequence):
        return convert(value)
    if isinstance(value, dict):
        made = {key: _replace(entry, convert) for key, entry in value.items()}
        is_changed = any(made[key] is not entry for key, entry in value.items())
        return made if is_changed else value
    if isinstance(value, list):
        entries = [_replace(entry, convert) for entry in value]
        is_changed = any(new is not old for new, old in zip(entries, value, strict=True))
        return entries if is_changed else value
    return value
