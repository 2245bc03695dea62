"""Which item of a run a person means: by its id, its row number or the beginning of its id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from graphmill.core.errors import UsageError
from graphmill.core.job import position_of_row, row_number
from graphmill.core.json import item_key
from graphmill.core.suggest import suggestion
from graphmill.journal.records import Entry, ItemHistory, Query, RunRecord, RunState
from graphmill.journal.store import Archive

_SHOWN = 5
_MOST_IDS = 20_000  # searched for a similar id
_ID_CHARS = 60


class NamedItem(NamedTuple):
    """An item that a name means, with all that is recorded of it."""

    id: str
    history: ItemHistory


def find_item(archive: Archive, run: RunRecord, name: str, *, with_calls: bool = False) -> NamedItem:
    """Find an item by its id, its row number or the beginning of its id; UsageError if there is none, or several."""
    found = meant_item(archive, run, name, with_calls=with_calls)
    if found is None:
        raise UsageError(f"run {run.id} has no record of an item {name!r:.80}{_hint(archive, run, name)}")
    return found


def meant_item(archive: Archive, run: RunRecord, name: str, *, with_calls: bool = False) -> NamedItem | None:
    """Return the item that has this id, this row number (from 1), or an id that begins so; None if none does.

    An exact id always wins over a row number, and that over a beginning. UsageError lists the candidates of a name that
    may mean several items. Only an item with a result has a row and a beginning.
    """
    history = archive.history(run, item_key(name), with_calls=with_calls)
    if history.entries or history.attempts or history.steps or history.wanted or history.suspect:
        return NamedItem(name, history)
    found = entries_named(archive, run, name)
    if not found:
        return None
    require_one(run, name, found)
    return NamedItem(found[0].result.job_id, archive.history(run, found[0].key, with_calls=with_calls))


def entries_named(archive: Archive, run: RunRecord, name: str) -> Sequence[Entry]:
    """Return the first results that a row number or the beginning of an id may mean."""
    position = position_of_row(name)
    if position is not None:
        found = list(archive.entries(run, Query(position=position, limit=_SHOWN + 1)))
        if found:  # what has left the source still has the row that it had there
            return [entry for entry in found if not entry.is_orphaned] or found
    if not name:
        return []
    return list(archive.entries(run, Query(id_prefix=name, limit=_SHOWN + 1)))


def require_one(run: RunRecord, name: str, found: Sequence[Entry]) -> None:
    """Refuse a name that may mean several items."""
    if len(found) < 2:
        return
    candidates = [
        f"{entry.result.job_id!r:.{_ID_CHARS}} (row {row_number(entry.result.position)})" for entry in found[:_SHOWN]
    ]
    more = ", …" if len(found) > _SHOWN else ""
    raise UsageError(
        f"{name!r:.80} may be any of these items of run {run.id}: {', '.join(candidates)}{more}; write more of the id"
    )


def _hint(archive: Archive, run: RunRecord, name: str) -> str:
    if run.state is not RunState.FINISHED:
        return "; it is still pending, or does not exist"
    ids = [entry.result.job_id for entry in archive.entries(run, Query(limit=_MOST_IDS))]
    return suggestion(name, ids)
