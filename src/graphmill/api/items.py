"""What a batch runs over: ids of items, early checks of their fields, samples, and the single item of one job."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from graphmill.core.errors import SourceError, UnknownRunError, UsageError
from graphmill.core.job import JOB_ID, own_id
from graphmill.core.json import canonical, to_json
from graphmill.core.suggest import suggestion
from graphmill.datasets.hub import HubDataset
from graphmill.datasets.source import Source, noted_source
from graphmill.engine.admission import require_series
from graphmill.graph.graph import Graph
from graphmill.graph.template import is_name
from graphmill.journal.journal import Journal, open_journal

MOST_SAMPLES = 10_000
_MOST_READ = 1000
_MOST_NAMES = 20


def id_rule(items: Any, id_field: str | None) -> Callable[[Any, int], str | None]:
    """Return the function that finds an item's id from the item and its position; it returns None if there is none."""
    if isinstance(items, Single):
        return lambda _item, _position: JOB_ID
    if id_field is None:
        return own_id
    return partial(own_id, id_field=id_field)


def prepare_items(items: Source, *, run_id: str | None, journal: Journal | str | Path | None) -> None:
    """Do what takes a source long; a dataset is read at the commit of the run, if that exists already. Blocks."""
    if run_id is not None and isinstance(items.origin, HubDataset):
        former = _former_source(run_id, journal)
        if former is not None:
            items.origin.pin(former.origin)
    items.prepare()


def bad_rows_notes(items: Any) -> tuple[str, ...]:
    """Say which rows of a source were skipped, if any were."""
    if not isinstance(items, Source) or not items.bad_count:
        return ()
    more = items.bad_count - len(items.bad_rows)
    named = "; ".join([*items.bad_rows, *([f"and {more:,} more"] if more else [])])
    return (f"{items.bad_count:,} bad row{'s' * (items.bad_count != 1)} skipped: {named}",)


def _former_source(run_id: str, journal: Journal | str | Path | None) -> Source | None:
    run = None
    if isinstance(journal, Journal):
        run = journal.find(run_id)
    else:
        with suppress(UnknownRunError), closing(open_journal(journal, create=False)) as opened:
            run = opened.find(run_id)
    return None if run is None else noted_source(run.source)


def require_id(items: Any, id_field: str | None) -> None:
    """Refuse an id field that the first item of a file does not have, before anything is recorded."""
    if id_field is None or not _is_file(items):
        return
    with suppress(SourceError), closing(_first(items, 1)) as first:  # the run reports what is wrong with the source
        for item in first:
            own_id(item, 0, id_field=id_field)


def require_fields(graph: Any, items: Any) -> None:
    """Refuse a required input that none of a file's first items has. If only some lack it, they fail alone."""
    if not isinstance(graph, Graph) or not _is_file(items):
        return
    wanted = [each.name for each in graph.inputs.values() if each.is_required and each.name not in graph.given]
    if wanted:
        with suppress(SourceError), closing(_first(items, _MOST_READ)) as first:
            _require_any(wanted, first, items.name)


def _is_file(items: Any) -> bool:
    return isinstance(items, Source) and items.is_stored


def _first(items: Iterable[Any], number: int) -> Generator[Any, None, None]:
    yield from islice(items, number)


def _require_any(wanted: list[str], items: Iterable[Any], source: str) -> None:
    fields: dict[str, None] = {}
    count = 0
    for count, item in enumerate(items, 1):  # noqa: B007  used after the loop
        if not isinstance(item, Mapping):  # it may be the only input itself
            return
        wanted = [name for name in wanted if name not in item]
        if not wanted:
            return
        fields |= dict.fromkeys(map(str, item))
    if count:
        found_in = f"no item of {source}" if count < _MOST_READ else f"none of the first {count:,} items of {source}"
        raise _missing_field(wanted[0], list(fields), found_in)


def _missing_field(name: str, fields: list[str], found_in: str) -> UsageError:
    there = ", ".join(fields[:_MOST_NAMES]) or "nothing"
    if len(fields) > _MOST_NAMES:
        there += f" and {len(fields) - _MOST_NAMES} more"
    hint = f'; if only some items have it, set a default, in a prompt ${{{name} ?? "…"}}'
    if similar := suggestion(name, filter(is_name, fields)):
        hint = ""
    elif similar := suggestion(name, fields):
        hint = "; names may only have letters, digits, _ and -: give the field another name with --map NAME=COLUMN"
    return UsageError(f"{found_in} has a field {name!r}{similar}; fields: {there}{hint}")


def job_among_items() -> UsageError:
    """Return the error for a job among the items."""
    return UsageError("items must be plain data, got a Job; run jobs with gm.BatchExecutor().start(jobs)")


@dataclass(frozen=True, slots=True)
class Single:
    """The only item of a run of one job.

    Its id never changes, so a different input is a change of this item, not a new item.
    """

    item: Any

    def __iter__(self) -> Iterator[Any]:
        yield self.item

    def __len__(self) -> int:
        return 1

    def note(self) -> dict[str, Any] | None:
        """Return what a manifest records of it; None if it is not plain data and could not be read back."""
        try:
            plain = json.loads(to_json(self.item))
            is_plain = canonical(plain) == canonical(self.item)
        except (TypeError, ValueError, RecursionError):
            return None
        return {"item": plain} if is_plain else None

    @classmethod
    def noted(cls, note: Mapping[str, Any]) -> Single | None:
        """Return the item that a manifest recorded, if any."""
        if "item" in note:
            return cls(note["item"])
        return None


def require_samples(samples: object) -> None:
    """Refuse a wrong number of samples."""
    if type(samples) is not int or not 1 <= samples <= MOST_SAMPLES:
        raise UsageError(f"samples must be an integer from 1 to {MOST_SAMPLES:,}, got {samples!r:.80}")


def repeat_samples(items: Any, samples: int) -> Any:
    """Repeat each item lazily: position p holds sample p % samples + 1 of item p // samples."""
    if samples == 1:
        return items
    require_series(items)
    if isinstance(items, AsyncIterable):
        return _AsyncSampled(items, samples)
    return _Sampled(items, samples)


class _Sampled:
    """Repeats the items of an iterable."""

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
    """Repeats the items of an async iterable."""

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
