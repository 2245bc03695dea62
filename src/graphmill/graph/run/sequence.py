"""What a large batch gives: sequences of which each entry is read when it is asked for."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, overload

from graphmill.core.errors import Permanent
from graphmill.core.json import digest
from graphmill.graph.run.ended_items import Shelf

MOST_BROUGHT_IN = 64 * 2**20


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
