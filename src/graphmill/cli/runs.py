"""``graphmill runs``: the runs that are recorded here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphmill.cli.answer import AsJson, tell, tell_json
from graphmill.cli.journal import Journal, opened
from graphmill.cli.prune import prune
from graphmill.cli.width import terminal_width
from graphmill.core.errors import UnknownRunError
from graphmill.journal.opening import default_journal
from graphmill.journal.records import RunState
from graphmill.report.run_pages import RunsView, runs_lines, runs_record, runs_view

_SHOWN = 20

runs = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
runs.command()(prune)


@runs.callback(invoke_without_command=True)
def _runs(
    context: typer.Context,
    *,
    state: Annotated[RunState | None, typer.Option(help="Only runs in this state.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="Show the newest N.", min=1)] = _SHOWN,
    as_json: AsJson = False,
    journal: Journal = None,
) -> None:
    """List the runs, newest last.

    A star marks those that are under way.

    Example: graphmill runs --state paused
    """
    if context.invoked_subcommand is not None:
        return
    view = _view(journal, state, limit)
    if as_json:
        tell_json(runs_record(view))
    else:
        tell(runs_lines(view, terminal_width()) if view.runs else [_none(journal, state)])


def _view(journal: str | None, state: RunState | None, limit: int) -> RunsView:
    try:
        with opened(journal) as store:
            found = [run for run in store.archive.runs() if state is None or run.state is state]
            return runs_view(store, found, limit=limit)
    except UnknownRunError:  # there is no store, which is as good as an empty one
        return RunsView(runs=[])


def _none(journal: str | None, state: RunState | None) -> str:
    if state is not None:
        return f"no runs here that are {state}"
    place = journal or default_journal()
    where = place if ":" in place else Path(place).absolute()
    return f"no runs here yet, in {where}; --journal names another place"
