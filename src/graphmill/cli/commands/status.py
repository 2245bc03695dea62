"""``graphmill status``: a run's progress."""

from __future__ import annotations

import sys
import time
from typing import Annotated, NoReturn

import typer

from graphmill.cli.options import Journal, RunName
from graphmill.cli.signals import on_signals
from graphmill.cli.terminal import AsJson, print_json, print_lines
from graphmill.cli.values import open_existing
from graphmill.journal.records import HELD
from graphmill.journal.store import Archive
from graphmill.report.next_commands import next_lines
from graphmill.report.run_view import RunView, run_record, status_line, status_lines, view_of

_EVERY_S = 1.0


def status(
    run: RunName,
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Repeat every second while the run is active.")] = False,
    as_json: AsJson = False,
    journal: Journal = None,
) -> None:
    """Show a run's progress.

    Example: graphmill status k7f2 --watch
    """
    with open_existing(journal) as store:
        view = _read(store.archive, run)
        if watch and not as_json and sys.stdout.isatty():
            view = _watch_in_place(store.archive, view)
        elif watch:
            view = _watch_in_lines(store.archive, view, as_json=as_json)
    if as_json:
        print_json(run_record(view))
        return
    lines = status_lines(view)
    if view.run.status == HELD or (not view.run.is_live and (view.can_resume or view.failed)):
        lines += next_lines(view)
    print_lines(lines)


def _read(archive: Archive, name: str) -> RunView:
    return view_of(archive, archive.find(name))


def _watch_in_lines(archive: Archive, view: RunView, *, as_json: bool) -> RunView:
    """Print a reading every second; return the last one, which is not printed."""
    while view.run.is_live:
        if as_json:
            print_json(run_record(view))
        else:
            print_lines([status_line(view)])
        sys.stdout.flush()
        time.sleep(_EVERY_S)
        view = _read(archive, view.run.id)
    return view


def _watch_in_place(archive: Archive, view: RunView) -> RunView:
    from rich.console import Console  # noqa: PLC0415  costs 60 ms, which --help must not pay
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    on_signals(_exit_by_exception)
    with Live(console=Console(), transient=True, auto_refresh=False) as live:
        while view.run.is_live:
            live.update(Text("\n".join(status_lines(view))), refresh=True)
            time.sleep(_EVERY_S)
            view = _read(archive, view.run.id)
    return view


def _exit_by_exception(number: int, _frame: object) -> NoReturn:
    """Exit through rich, which shows the cursor again."""
    raise typer.Exit(128 + number)
