"""The items of a batch: by which id each goes, and what is none."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from graphmill.core.errors import SourceError, UsageError
from graphmill.core.job import JOB_ID, own_id
from graphmill.core.json import canonical, to_json
from graphmill.core.suggest import suggestion
from graphmill.datasets.source import FileSource
from graphmill.engine.feed import require_series
from graphmill.graph.graph import Graph
from graphmill.graph.template import is_name

_LOOKED_AT = 1000
_MOST_NAMES = 20


def id_rule(items: Any, id_field: str | None) -> Callable[[Any, int], str | None]:
    """Tell by which id an item of a series goes, given the item and its position; None for one that has none."""
    if isinstance(items, Single):
        return lambda _item, _position: JOB_ID
    return own_id if id_field is None else partial(own_id, id_field=id_field)


def require_id(items: Any, id_field: str | None) -> None:
    """Refuse a field that already the first item of a file does not have: before anything is recorded."""
    if id_field is None or not isinstance(items, FileSource) or not items.is_stored:
        return
    with (
        suppress(SourceError),
        closing(_first(items, 1)) as first,
    ):  # what is wrong with the source is told when it is read
        for item in first:
            own_id(item, 0, id_field=id_field)


def require_fields(graph: Any, items: Any) -> None:
    """Refuse a required input that no item of a file has, as far as one looks: all would fail by it. Some may lack it, and do alone."""
    if not isinstance(graph, Graph) or not isinstance(items, FileSource) or not items.is_stored:
        return
    wanted = [each.name for each in graph.inputs.values() if each.is_required and each.name not in graph.given]
    if wanted:
        with suppress(SourceError), closing(_first(items, _LOOKED_AT)) as first:
            _require_held(wanted, first, items.name)


def _require_held(wanted: list[str], items: Iterable[Any], source: str) -> None:
    fields: dict[str, None] = {}
    count = 0
    for count, item in enumerate(items, 1):  # noqa: B007  how many there were
        if not isinstance(item, Mapping):  # it may be the one input itself
            return
        wanted = [name for name in wanted if name not in item]
        if not wanted:
            return
        fields |= dict.fromkeys(map(str, item))
    if count:
        looked_at = f"no item of {source}" if count < _LOOKED_AT else f"none of the first {count:,} items of {source}"
        raise _not_held(wanted[0], list(fields), looked_at)


def _not_held(name: str, fields: list[str], looked_at: str) -> UsageError:
    more = f" and {len(fields) - _MOST_NAMES} more" if len(fields) > _MOST_NAMES else ""
    there = (", ".join(fields[:_MOST_NAMES]) or "nothing") + more
    said, remedy = suggestion(name, filter(is_name, fields)), ""
    if not said and (said := suggestion(name, fields)):
        remedy = "; a name has letters, digits, _ and - alone: rename such a field in the items first"
    elif not said:
        remedy = f'; if only some have it, give it a default, in a prompt ${{{name} ?? "…"}}'
    return UsageError(f"{looked_at} has a field {name!r}{said}; there is {there}{remedy}")


def _first(items: Iterable[Any], number: int) -> Generator[Any, None, None]:
    yield from islice(items, number)


def no_item() -> UsageError:
    """Give what is raised for a job among the items."""
    return UsageError(
        "the items of a batch are plain; jobs, each with its own graph, are run by gm.BatchExecutor().start(jobs)"
    )


@dataclass(frozen=True, slots=True)
class Single:
    """The only item of a run; it goes by the same id whatever it is, so that other inputs are a change and no other item."""

    item: Any

    def __iter__(self) -> Iterator[Any]:
        yield self.item

    def __len__(self) -> int:
        return 1

    def note(self) -> dict[str, Any] | None:
        """Give what a manifest notes of it; None if it is not plain data, and could not be had again."""
        try:
            plain = json.loads(to_json(self.item))
            return {"item": plain} if canonical(plain) == canonical(self.item) else None
        except (TypeError, ValueError, RecursionError):
            return None

    @classmethod
    def noted(cls, note: Mapping[str, Any]) -> Single | None:
        """Give the item that a manifest notes, if it does."""
        return cls(note["item"]) if "item" in note else None


MOST_SAMPLES = 10_000


def require_samples(samples: object) -> None:
    """Refuse a number of samples that can not be meant."""
    if type(samples) is not int or not 1 <= samples <= MOST_SAMPLES:
        raise UsageError(f"samples is how often each item is done, 1 to {MOST_SAMPLES:,}, not {samples!r:.80}")


def sampled(items: Any, samples: int) -> Any:
    """Give each item so often, as lazily as it comes; at position p stands sample p % samples + 1 of item p // samples."""
    if samples == 1:
        return items
    require_series(items)
    return _AsyncSampled(items, samples) if isinstance(items, AsyncIterable) else _Sampled(items, samples)


class _Sampled:
    """A plain series, each of whose items is given several times."""

    def __init__(self, items: Any, samples: int) -> None:
        self._items = items
        self._samples = samples
        self.is_stored = isinstance(items, list | tuple | range) or getattr(items, "is_stored", False)

    def __iter__(self) -> Iterator[Any]:
        items = iter(self._items)
        try:
            for item in items:
                for _ in range(self._samples):
                    yield item
        finally:
            if isinstance(items, Generator):
                items.close()


class _AsyncSampled:
    """The same of an async series."""

    def __init__(self, items: AsyncIterable[Any], samples: int) -> None:
        self._items = items
        self._samples = samples

    async def __aiter__(self) -> AsyncIterator[Any]:
        try:
            async for item in self._items:
                for _ in range(self._samples):
                    yield item
        finally:
            if close := getattr(self._items, "aclose", None):
                await close()
