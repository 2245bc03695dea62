"""``graphmill pause``, ``cancel`` and ``limits``: change a run while it is active. Requests go through its journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from graphmill.cli.options import Journal, RunName, open_existing
from graphmill.cli.terminal import print_lines
from graphmill.core.errors import UsageError
from graphmill.core.job import JOB_ID
from graphmill.core.json import item_key
from graphmill.journal.records import CANCELLED, RUNNING, RunRecord, RunRequest, RunRow, RunState
from graphmill.journal.store import Archive, Store
from graphmill.report.run_view import is_single, run_name
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
        int, typer.Option("--concurrency", "-c", metavar="N", help="Maximum attempts at once.", min=1)
    ],
    journal: Journal = None,
) -> None:
    """Change the concurrency of a run.

    Example: graphmill limits k7f2 --concurrency 40
    """
    request = RunRequest("limit", str(concurrency))
    with open_existing(journal) as store:
        found = store.archive.find(run)
        _require_live(found, "only the limits of an active run can be changed")
        now = send_request(store.archive, found, request, lambda now: _concurrency(now) == concurrency)
    text = reply_text(found, now)
    if now is not None and now.is_live:
        text += f", with concurrency {concurrency}"
    print_lines([text])


def cancel(
    run: RunName,
    *,
    item: Annotated[str | None, typer.Option(metavar="ID", help="Cancel only this item.", show_default=False)] = None,
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
    _require_live(run, "an item can be cancelled only while its run is active")
    key, name = item_key(item), one_line(item, _ID_CHARS)
    if is_single(run) and item != JOB_ID:
        raise UsageError(f"run {run_name(run)} has no item {name}; its only item is {JOB_ID}")
    before = archive.history(run, key)
    count = len(before.entries)
    if before.entries and before.entries[-1].generation >= before.wanted:
        return f"item {name} has already ended: {before.entries[-1].result.status}"
    now = send_request(
        archive, run, RunRequest("cancel_item", item), lambda _: len(archive.history(run, key).entries) > count
    )
    if now is None:
        return (
            f"item {name} of run {run_name(run)} has not ended within {REPLY_S:g} s: it does not exist, "
            "was not read yet (cancel it again later), or is slow to end"
        )
    entries = archive.history(run, key).entries
    return f"item {name} is {entries[-1].result.status}" if len(entries) > count else state_text(now)


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


def _concurrency(run: RunRecord) -> object:
    """Read from the manifest what the run has recorded there."""
    policy = run.manifest.get("policy")
    return (policy if isinstance(policy, Mapping) else run.manifest).get("concurrency")


# -- requests to an active run


def send_request(
    archive: Archive, run: RunRecord, request: RunRequest, is_done: Callable[[RunRecord], bool]
) -> RunRecord | None:
    """Return the run once the request is done or the run has ended; None if there is no reply within five seconds."""
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
