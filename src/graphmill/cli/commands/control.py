"""``graphmill pause``, ``cancel`` and ``limits``: change a run while it is active. Requests go through its journal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer

from graphmill.cli.options import Journal, RunName
from graphmill.cli.terminal import print_lines
from graphmill.cli.values import open_existing
from graphmill.core.errors import UsageError
from graphmill.core.job import JOB_ID
from graphmill.core.json import item_key
from graphmill.journal.item_name import entries_named, require_one
from graphmill.journal.records import CANCELLED, RUNNING, Entry, RunRecord, RunRequest, RunRow, RunState
from graphmill.journal.store import Archive, Store
from graphmill.report.run_view import run_name
from graphmill.report.text import one_line

REPLY_S = 5.0
_POLL_S = 0.05
_ID_CHARS = 80


def pause(run: RunName, *, journal: Journal = None) -> None:
    """Pause a run: start nothing new until it is resumed.

    Example: graphmill pause k7f2
    """
    with open_existing(journal) as store:
        found = store.archive.find(run)
        _require_live(found, "only an active run can be paused")
        now = send_request(store.archive, found, RunRequest("pause"), lambda now: now.status != RUNNING)
    print_lines([reply_text(found, now)])


def limits(
    run: RunName,
    *,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", "-c", metavar="N", help="Maximum attempts at once.", min=1, show_default=False),
    ] = None,
    adaptive: Annotated[
        bool | None,
        typer.Option(
            "--adaptive/--no-adaptive",
            help="Find the best concurrency below --concurrency, or use exactly that. [default: as it is]",
            show_default=False,
        ),
    ] = None,
    journal: Journal = None,
) -> None:
    """Change the concurrency of a run.

    Example: graphmill limits k7f2 --concurrency 40
    """
    if concurrency is None and adaptive is None:
        raise UsageError("give --concurrency N, --adaptive or --no-adaptive")
    changes = {"concurrency": concurrency, "adaptive": adaptive}
    wanted = {name: value for name, value in changes.items() if value is not None}
    mode = {None: "", True: " adaptive", False: " fixed"}[adaptive]
    request = RunRequest("limit", f"{concurrency or ''}{mode}")
    with open_existing(journal) as store:
        found = store.archive.find(run)
        _require_live(found, "only the limits of an active run can be changed")
        now = send_request(store.archive, found, request, lambda now: wanted.items() <= now.policy.items())
    text = reply_text(found, now)
    if now is not None and now.is_live:
        text += f", with concurrency {now.policy.get('concurrency')}{mode and f' ({mode.strip()})'}"
    print_lines([text])


def cancel(
    run: RunName,
    *,
    item: Annotated[
        str | None, typer.Option(metavar="ITEM", help="Cancel only this item, by row number or id.", show_default=False)
    ] = None,
    journal: Journal = None,
) -> None:
    """Cancel a run, or one of its items.

    Results so far are kept. A single item can be cancelled only while its run is active.

    Example: graphmill cancel k7f2 --item HumanEval/118
    """
    with open_existing(journal) as store:
        found = store.archive.find(run)
        if item is not None:
            text = _cancel_item(store.archive, found, item)
        elif found.is_live:
            now = send_request(store.archive, found, RunRequest("cancel"), lambda now: not now.is_live)
            text = reply_text(found, now)
        else:
            text = _cancel_inactive(store, found)
    print_lines([text])


def _cancel_item(archive: Archive, run: RunRecord, item: str) -> str:
    """Ask the owner to cancel an item; it knows by which row or id its unfinished ones go."""
    _require_live(run, "an item can be cancelled only while its run is active")
    name = one_line(item, _ID_CHARS)
    if run.is_single and item != JOB_ID:
        raise UsageError(f"run {run_name(run)} has no item {name}; its only item is {JOB_ID}")
    history = archive.history(run, item_key(item))
    if history.entries and history.entries[-1].generation >= history.wanted:
        return _ended_text(history.entries[-1])
    before = _named(archive, run, item)
    if not history.entries:
        require_one(run, item, list(before.values()))
    now = send_request(
        archive, run, RunRequest("cancel_item", item), lambda _: _named(archive, run, item).keys() > before.keys()
    )
    after = _named(archive, run, item)
    ended = [after[place] for place in after.keys() - before.keys()]
    if ended:
        return f"item {one_line(ended[0].result.job_id, _ID_CHARS)} is {ended[0].result.status}"
    if before and now is None:
        return _ended_text(next(iter(before.values())))
    if now is None:
        return (
            f"item {name} of run {run_name(run)} has not ended within {REPLY_S:g} s: it does not exist, "
            "was not read yet (cancel it again later), or is slow to end"
        )
    return state_text(now)


def _named(archive: Archive, run: RunRecord, item: str) -> dict[tuple[bytes, int], Entry]:
    """Return the results of an item by key and generation: of that id or, if there is none, what the name may mean."""
    entries = archive.history(run, item_key(item)).entries or entries_named(archive, run, item)
    return {(entry.key, entry.generation): entry for entry in entries}


def _ended_text(entry: Entry) -> str:
    return f"item {one_line(entry.result.job_id, _ID_CHARS)} has already ended: {entry.result.status}"


def _cancel_inactive(store: Store, run: RunRecord) -> str:
    """Cancel a run that no process works on, by becoming its owner for a moment."""
    if run.state is RunState.CANCELLED:
        return state_text(run)
    if run.state is not RunState.PAUSED:
        raise UsageError(f"{state_text(run)}; there is nothing to cancel")
    ledger = store.take(run.id)
    try:
        ledger.append([RunRow(status=CANCELLED, reason="cancelled by a user")])
    finally:
        ledger.release()
    return f"run {run_name(run)} was {run.status} and is now cancelled"


def _require_live(run: RunRecord, reason: str) -> None:
    if not run.is_live:
        raise UsageError(f"{state_text(run)}; {reason}")


# -- requests to an active run


def send_request(
    archive: Archive, run: RunRecord, request: RunRequest, is_done: Callable[[RunRecord], bool]
) -> RunRecord | None:
    """Return the run once the request is done or the run has ended; None without a reply within five seconds."""
    archive.ask(run, request)
    latest = time.monotonic() + REPLY_S
    while time.monotonic() < latest:
        now = archive.find(run.id)
        if is_done(now) or not now.is_live:
            return now
        time.sleep(_POLL_S)
    return None


def reply_text(run: RunRecord, now: RunRecord | None) -> str:
    """Say what a request led to."""
    if now is None:
        return f"no reply from run {run_name(run)} after {REPLY_S:g} s; the request is still queued"
    return state_text(now)


def state_text(run: RunRecord) -> str:
    """Say which state a run is in, and why."""
    reason = f" ({one_line(run.reason, 200)})" if run.reason else ""
    return f"run {run_name(run)} is {run.status}{reason}"
