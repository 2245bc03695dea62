"""``graphmill export``: the results of a run as a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from graphmill.cli.answer import require_stdout
from graphmill.cli.exit_code import ExitCode
from graphmill.cli.journal import Journal, RunName, opened, require_apart, require_other_file
from graphmill.core.errors import ExportError
from graphmill.core.result import Result, Status
from graphmill.datasets.sink import Sink, sink, write_all
from graphmill.journal.ports import Archive
from graphmill.journal.records import Query, RunRecord
from graphmill.report.run_view import RunView, view_of
from graphmill.report.text import shown

_NAME_CHARS = 80


def export(
    run: RunName,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A .jsonl, .json or .csv file, or - for standard output.", show_default=False
        ),
    ],
    *,
    status: Annotated[
        Literal["succeeded", "failed", "timed_out", "cancelled", "paused"] | None,
        typer.Option(help="Only results of this status.", show_default=False),
    ] = None,
    file_format: Annotated[
        Literal["jsonl", "json", "csv"] | None,
        typer.Option("--format", help="Where the name does not say.", show_default=False),
    ] = None,
    journal: Journal = None,
) -> None:
    """Write a run's results to a file, in input order.

    The file is whole or not there. A run that is under way gives what it has so far.

    Example: graphmill export k7f2 results.jsonl --status succeeded
    """
    with opened(journal) as store:
        found = store.archive.find(run)
        require_apart(file, store.name)
        require_other_file(found, file)
        if file == "-":
            require_stdout()
        target = sink(file, format=file_format)
        rows = _Rows(store.archive, found, None if status is None else Status(status))
        _write(rows, target)
        view = view_of(store.archive, found)
    typer.echo(_closing(view, rows.count, file, status), err=True)


def _write(rows: _Rows, target: Sink) -> None:
    try:
        write_all(rows, target, complete=True)
    except ExportError as error:
        if isinstance(error.__cause__, BrokenPipeError):  # such as head, which has what it wants
            raise typer.Exit(ExitCode.OUTPUT) from None
        raise


class _Rows:
    """A run's results, counted as they pass."""

    def __init__(self, archive: Archive, run: RunRecord, status: Status | None) -> None:
        self._archive = archive
        self._run = run
        self._query = Query(statuses=None if status is None else frozenset({status}))
        self.count = 0

    def __iter__(self) -> Iterator[Result]:
        for entry in self._archive.entries(self._run, self._query):
            yield entry.result
            self.count += 1


def _closing(view: RunView, count: int, file: str, status: str | None) -> str:
    """Say how many rows were written, and that there will be more if that is so."""
    rows = "1 row" if count == 1 else f"{count:,} rows"
    place = "" if file == "-" else f" in {shown(Path(file).name, _NAME_CHARS)}"
    only = "" if status is None else f" {status}"
    done = count if status is None else view.done  # a run under way has got on since
    so_far = (
        f", so far {done:,} of {'?' if view.run.total is None else f'{view.run.total:,}'} items"
        if view.left != 0
        else ""
    )
    return f"run {view.name} is {view.run.state}: {rows if count else 'no rows'}{only}{place}{so_far}"
