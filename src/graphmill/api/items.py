"""The items of a batch: by which id each goes, and what is none."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from typing import Any

from graphmill.api.single import Single
from graphmill.core.errors import SourceError, UsageError
from graphmill.core.identity import JOB_ID, own_id
from graphmill.datasets.source import FileSource


def id_rule(items: Any, id_field: str | None) -> Callable[[Any, int], str | None]:
    """Tell by which id an item of a series goes, given the item and its position; None for one that has none."""
    if isinstance(items, Single):
        return lambda _item, _position: JOB_ID
    return partial(_own_id, id_field)


def require_id(items: Any, id_field: str | None) -> None:
    """Refuse a field that already the first item of a file does not have: before anything is recorded."""
    if id_field is None or not isinstance(items, FileSource) or not items.is_stored:
        return
    with suppress(SourceError), closing(_first(items)) as first:  # what is wrong with the source is told when it is read
        for item in first:
            own_id(item, position=0, id_field=id_field)


def _first(items: Iterable[Any]) -> Generator[Any, None, None]:
    yield from islice(items, 1)


def no_item() -> UsageError:
    """Give what is raised for a job among the items."""
    return UsageError("the items of a batch are plain; jobs, each with its own graph, are run by gm.BatchExecutor().start(jobs)")


def _own_id(id_field: str | None, item: Any, position: int) -> str | None:
    return own_id(item, position=position, id_field=id_field)
