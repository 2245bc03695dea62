"""``graphmill cancel``: end a run, or one of its items."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from graphmill.cli.answer import tell
from graphmill.cli.asking import PATIENCE_S, ask, not_answered, require_live, stands
from graphmill.cli.journal import Journal, RunName, opened
from graphmill.core.errors import SourceError, UsageError
from graphmill.core.job import JOB_ID, own_id
from graphmill.core.json import item_key
from graphmill.datasets.source import noted_source
from graphmill.journal.ports import Archive, Store
from graphmill.journal.records import Request, RunRecord, RunRow, RunState
from graphmill.report.run_view import is_single, run_name
from graphmill.report.text import shown

_ID_CHARS = 80
_READING_S = 2.0
_CAN_BE_GIVEN_UP = (RunState.PAUSED, RunState.INTERRUPTED)


def cancel(
    run: RunName,
    *,
    item: Annotated[str | None, typer.Option(metavar="ID", help="Cancel only this item.", show_default=False)] = None,
    journal: Journal = None,
) -> None:
    """End a run, or one of its items.

    What is done is kept, the rest is cancelled. An item can be ended while its run is under way.

    Example: graphmill cancel k7f2 --item HumanEval/118
    """
    with opened(journal) as store:
        found = store.archive.find(run)
        if item is not None:
            answer = _cancel_item(store.archive, found, item)
        elif found.state.is_live:
            ended = ask(store.archive, found, Request("cancel"), lambda now: not now.state.is_live)
            answer = not_answered(found) if ended is None else stands(ended)
        else:
            answer = _give_up(store, found)
    tell([answer])


def _cancel_item(archive: Archive, run: RunRecord, item: str) -> str:
    require_live(run, "an item can be cancelled only while its run is under way")
    key, name = item_key(item), shown(item, _ID_CHARS)
    if is_single(run) and item != JOB_ID:
        raise UsageError(f"run {run_name(run)} has no item {name}: it is a run of one job, whose id is {JOB_ID}")
    before = archive.history(run, key)
    if before.entries and before.entries[-1].generation >= before.wanted:
        return f"item {name} has ended already: {before.entries[-1].result.status}"
    if not before.entries and _is_surely_absent(run, item):
        raise UsageError(f"run {run_name(run)} has no item {name}")
    ended = ask(
        archive,
        run,
        Request("cancel_item", item),
        lambda _: len(archive.history(run, key).entries) > len(before.entries),
    )
    if ended is None:
        return _not_ended(run, name)
    after = archive.history(run, key).entries
    return f"item {name} is {after[-1].result.status}" if len(after) > len(before.entries) else stands(ended)


def _is_surely_absent(run: RunRecord, item_id: str) -> bool:
    """Tell whether a run's file holds no item of this id: only if it is as it was, all items have ids, and they are soon looked through."""
    if run.owner is None:
        return False
    options = run.manifest.get("options", {})
    sampled, hash_, sample = item_id.rpartition("#")
    names = {item_id, sampled} if hash_ and sample.isdecimal() and options.get("samples", 1) > 1 else {item_id}
    try:
        items = noted_source(run.manifest.get("source"))
        if items is None or not items.is_stored or items.place.stat().st_mtime >= run.owner.since:
            return False
        ids = _ids(items, options.get("id_field"))
    except (UsageError, SourceError, OSError):
        return False
    return ids is not None and names.isdisjoint(ids)


def _ids(items: Iterable[Any], id_field: str | None) -> set[str] | None:
    """Give the ids of all items; None if that takes long, or one goes by its content."""
    ids, latest = set[str](), time.monotonic() + _READING_S
    for position, item in enumerate(items):
        found = own_id(item, position, id_field=id_field)
        if found is None or (position % 1000 == 0 and time.monotonic() > latest):
            return None
        ids.add(found)
    return ids


def _not_ended(run: RunRecord, name: str) -> str:
    """Say what may be the matter: only the run itself knows what is under way, and nobody what is still to be read."""
    return (
        f"run {run_name(run)} was asked to cancel item {name}, which has not ended within {PATIENCE_S:g} s: there is no such item, "
        "or it is not reached yet and has to be asked for again, or it takes its time to end"
    )


def _give_up(store: Store, run: RunRecord) -> str:
    """Cancel a run that nobody is at work on, by becoming its owner for a moment."""
    if run.state is RunState.CANCELLED:
        return stands(run)
    if run.state not in _CAN_BE_GIVEN_UP:
        raise UsageError(f"{stands(run)}; there is nothing to cancel")
    ledger = store.take(run.id)
    try:
        ledger.append([RunRow(state=RunState.CANCELLED, reason="cancelled by a person")])
    finally:
        ledger.release()
    return f"run {run_name(run)} was {run.state} and is cancelled now"
