"""``graphmill runs prune``: forget old runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from graphmill.cli.age import age_s
from graphmill.cli.answer import tell
from graphmill.cli.journal import Journal, opened, outer
from graphmill.core.errors import UsageError
from graphmill.journal.records import RunRecord
from graphmill.report.run_view import run_name
from graphmill.report.text import columns, moment, size


def prune(
    context: typer.Context,
    *,
    older: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="Only runs unchanged for this long, such as 30d; s, m, h, d or w.", show_default=False
        ),
    ] = None,
    keep: Annotated[int | None, typer.Option(metavar="N", help="Not the newest N.", min=0, show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which runs would go.")] = False,
    journal: Journal = None,
) -> None:
    """Forget old runs.

    A run goes if it is as old as said and not among the newest, and never while it is under way.

    Example: graphmill runs prune --older 30d --keep 20 --dry-run
    """
    if older is None and keep is None:
        raise UsageError("say which runs to forget: --older 30d, --keep 20, or both")
    longest_s = None if older is None else age_s(older)
    with opened(journal or outer(context, "journal")) as store:
        gone = to_forget(store.archive.runs(), now=time.time(), older_s=longest_s, keep=keep or 0)
        if dry_run:
            tell(_plan_lines([(run, store.size(run)) for run in gone]))
        else:
            freed = store.prune(gone)  # also for none: an earlier one may have been cut short
            tell([f"{_runs(len(gone))} pruned, {size(freed)} free again"])


def to_forget(runs: Sequence[RunRecord], *, now: float, older_s: float | None, keep: int) -> list[RunRecord]:
    """Choose among runs, given oldest first, those not changed for so long that are neither among the newest nor under way."""
    candidates = runs[: max(0, len(runs) - keep)]
    return [run for run in candidates if not run.state.is_live and (older_s is None or now - run.changed_at > older_s)]


def _plan_lines(runs: Sequence[tuple[RunRecord, int]]) -> list[str]:
    rows = [(run_name(run), str(run.state), moment(run.changed_at), size(bytes_)) for run, bytes_ in runs]
    return [*columns(rows), f"{_runs(len(runs))} would be pruned, about {size(sum(bytes_ for _, bytes_ in runs))}"]


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"
