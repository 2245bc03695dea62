"""``graphmill runs``: list recorded runs; ``runs delete`` and ``runs prune``: delete some."""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Annotated

import typer

from graphmill.cli.options import Journal
from graphmill.cli.terminal import AsJson, print_json, print_lines, terminal_width
from graphmill.cli.values import age_s, open_existing, parent_option
from graphmill.core.errors import UnknownRunError, UsageError
from graphmill.journal.records import RunRecord, RunState
from graphmill.journal.store import Store, default_journal
from graphmill.report.run_pages import RunsView, runs_lines, runs_record, runs_view
from graphmill.report.run_view import run_name
from graphmill.report.text import align_columns, count_text, local_time, size_text

_SHOWN = 20
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")]

runs = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@runs.callback(invoke_without_command=True)
def _runs(
    context: typer.Context,
    *,
    state: Annotated[RunState | None, typer.Option(help="Only runs in this state.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="Show the newest N.", min=1)] = _SHOWN,
    as_json: AsJson = False,
    journal: Journal = None,
) -> None:
    """List runs, newest last.

    A star marks active runs.

    Example: graphmill runs --state paused
    """
    if context.invoked_subcommand is not None:
        return
    view = _view(journal, state, limit)
    if as_json:
        print_json(runs_record(view))
    elif view.runs:
        print_lines(runs_lines(view, terminal_width()))
    else:
        print_lines([_no_runs(journal, state)])


def _view(journal: str | None, state: RunState | None, limit: int) -> RunsView:
    try:
        with open_existing(journal) as store:
            found = [run for run in store.archive.runs() if state is None or run.state is state]
            return runs_view(store, found, limit=limit)
    except UnknownRunError:  # there is no journal, which is as good as an empty one
        return RunsView(runs=[])


def _no_runs(journal: str | None, state: RunState | None) -> str:
    if state is not None:
        return f"no runs are {state}"
    place = journal or default_journal()
    where = place if ":" in place else Path(place).absolute()
    return f"no runs in {where}; use --journal for another place"


@runs.command()
def delete(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids, or unique starts of ids.")],
    *,
    dry_run: DryRun = False,
    journal: Journal = None,
) -> None:
    """Delete these runs, with their results.

    An active run is not deleted, and neither is any other then: cancel it first.

    Example: graphmill runs delete k7f2
    """
    with open_existing(journal or parent_option(context, "journal")) as store:
        named = {store.archive.find(name).id for name in names}
        found = with_passes(store.archive.runs(), named)
        for run in found:
            if run.is_live:
                raise UsageError(f"run {run.id} is active; end it first: graphmill cancel {run.id}")
        _delete(store, found, dry_run=dry_run)


def with_passes(runs: Sequence[RunRecord], ids: Container[str]) -> list[RunRecord]:
    """Choose the runs with these ids, and the scoring passes over them."""
    return [run for run in runs if run.id in ids or run.scored_id in ids]


def _delete(store: Store, found: Sequence[RunRecord], *, dry_run: bool) -> None:
    if dry_run:
        print_lines(_plan_lines([(run, store.size(run)) for run in found]))
    else:
        freed = store.prune(found)  # also if there are none: an earlier prune may have been cut short
        print_lines([f"{count_text(len(found), 'run')} deleted, freed {size_text(freed)}"])


@runs.command()
def prune(
    context: typer.Context,
    *,
    older: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Only runs unchanged for this long: 90m, 12h, 30d, 2w.", show_default=False),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(metavar="N", help="Keep the newest N runs.", min=0, show_default=False)
    ] = None,
    dry_run: DryRun = False,
    journal: Journal = None,
) -> None:
    """Delete old runs.

    Deletes runs that are older than --older and not among the newest --keep. Active runs are never deleted.

    Example: graphmill runs prune --older 30d --keep 20 --dry-run
    """
    if older is None and keep is None:
        raise UsageError("choose the runs to delete with --older 30d, --keep 20, or both")
    min_age_s = None if older is None else age_s(older)
    with open_existing(journal or parent_option(context, "journal")) as store:
        found = runs_to_delete(store.archive.runs(), now=time.time(), older_s=min_age_s, keep=keep or 0)
        _delete(store, found, dry_run=dry_run)


def runs_to_delete(runs: Sequence[RunRecord], *, now: float, older_s: float | None, keep: int) -> list[RunRecord]:
    """Choose old runs, given oldest first, that are not among the newest; active ones (or passes) stay."""
    ids = {run.id for run in runs}
    own = [run for run in runs if run.scored_id not in ids]  # scoring passes go with their runs
    active = {name for run in runs if run.is_live for name in (run.id, run.scored_id)}
    candidates = own[: max(0, len(own) - keep)]
    chosen = {run.id for run in candidates if older_s is None or now - run.changed_at > older_s}
    return with_passes(runs, chosen - active)


def _plan_lines(runs: Sequence[tuple[RunRecord, int]]) -> list[str]:
    rows = [(run_name(run), str(run.status), local_time(run.changed_at), size_text(bytes_)) for run, bytes_ in runs]
    total = size_text(sum(bytes_ for _, bytes_ in runs))
    return [*align_columns(rows), f"{count_text(len(runs), 'run')} would be deleted, freeing about {total}"]
