"""How something is asked of a live run: through the store, and then waited for, but not for long."""

from __future__ import annotations

import time
from collections.abc import Callable

from graphmill.core.errors import UsageError
from graphmill.journal.ports import Archive
from graphmill.journal.records import Request, RunRecord
from graphmill.report.run_view import run_name
from graphmill.report.text import shown

PATIENCE_S = 5.0
_EVERY_S = 0.05


def ask(archive: Archive, run: RunRecord, request: Request, is_done: Callable[[RunRecord], bool]) -> RunRecord | None:
    """Ask, and give the run once it is done or the run has ended; None if neither is so within five seconds."""
    archive.ask(run, request)
    latest = time.monotonic() + PATIENCE_S
    while time.monotonic() < latest:
        now = archive.find(run.id)
        if is_done(now) or not now.state.is_live:
            return now
        time.sleep(_EVERY_S)
    return None


def not_answered(run: RunRecord) -> str:
    """Say that nothing has come of it so far."""
    return f"run {run_name(run)} was asked, and has not answered within {PATIENCE_S:g} s; it still may"


def stands(run: RunRecord) -> str:
    """Say how a run stands."""
    reason = f" ({shown(run.reason, 200)})" if run.reason else ""
    return f"run {run_name(run)} is {run.state}{reason}"


def require_live(run: RunRecord, remedy: str) -> None:
    """Refuse a run that no process is at work on."""
    if not run.state.is_live:
        raise UsageError(f"{stands(run)}; {remedy}")
