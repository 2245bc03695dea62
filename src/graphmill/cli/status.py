"""``graphmill status``: where a run stands."""

from __future__ import annotations

import sys
import time
from typing import Annotated, NoReturn

import typer

from graphmill.cli.answer import AsJson, tell, tell_json
from graphmill.cli.journal import Journal, RunName, opened
from graphmill.cli.signals import listen
from graphmill.journal.ports import Archive
from graphmill.report.run_pages import next_lines
from graphmill.report.run_view import RunView, run_record, status_line, status_lines, view_of

_EVERY_S = 1.0


def status(
    run: RunName,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Repeat every second until the run is no longer under way.")
    ] = False,
    as_json: AsJson = False,
    journal: Journal = None,
) -> None:
    """Tell where a run stands.

    Example: graphmill status k7f2 --watch
    """
    with opened(journal) as store:
        view = _read(store.archive, run)
        if watch and not as_json and sys.stdout.isatty():
            view = _watch_in_place(store.archive, view)
        elif watch:
            view = _watch_in_lines(store.archive, view, as_json=as_json)
    if as_json:
        tell_json(run_record(view))
    else:
        tell(
            [
                *status_lines(view),
                *(next_lines(view) if not view.run.state.is_live and (view.can_resume or view.failed) else []),
            ]
        )


def _read(archive: Archive, name: str) -> RunView:
    return view_of(archive, archive.find(name))


def _watch_in_lines(archive: Archive, view: RunView, *, as_json: bool) -> RunView:
    """Print a reading every second; give the last one, which is not printed."""
    while view.run.state.is_live:
        if as_json:
            tell_json(run_record(view))
        else:
            tell([status_line(view)])
        sys.stdout.flush()
        time.sleep(_EVERY_S)
        view = _read(archive, view.run.id)
    return view


def _watch_in_place(archive: Archive, view: RunView) -> RunView:
    from rich.console import Console  # noqa: PLC0415  costs 60 ms, which --help must not pay
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    listen(_leave)
    with Live(console=Console(), transient=True, auto_refresh=False) as live:
        while view.run.state.is_live:
            live.update(Text("\n".join(status_lines(view))), refresh=True)
            time.sleep(_EVERY_S)
            view = _read(archive, view.run.id)
    return view


def _leave(number: int, _frame: object) -> NoReturn:
    """Leave by way of what shows the cursor again."""
    raise typer.Exit(128 + number)
