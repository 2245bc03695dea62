"""``graphmill export``: write the results of a run to a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from graphmill.api.run_reader import RunReader
from graphmill.cli.options import Journal, RunName, ShownColumns
from graphmill.cli.terminal import ExitCode, print_stderr, require_stdout
from graphmill.cli.values import (
    open_existing,
    read_names,
    require_own_file,
    require_own_file_of,
)
from graphmill.core.errors import ExportError, UsageError
from graphmill.core.result import Result, Trace
from graphmill.datasets.sink import Sink, sink, write_all
from graphmill.journal.journal import Journal as OpenJournal
from graphmill.journal.records import RECORD_PROMPTS, RunRecord
from graphmill.pipelines.trajectory import write_trajectories
from graphmill.report.run_view import RunView, view_of
from graphmill.report.text import count_text, one_line

_NAME_CHARS = 80


def export(
    run: RunName,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A file: .jsonl, .json, .csv or .parquet, or - (stdout); a new folder for trajectories.",
            show_default=False,
        ),
    ],
    *,
    status: Annotated[
        Literal["succeeded", "failed", "timed_out", "cancelled", "waiting"] | None,
        typer.Option(help="Only results with this status.", show_default=False),
    ] = None,
    file_format: Annotated[
        Literal["jsonl", "json", "csv", "parquet", "trajectory"] | None,
        typer.Option(
            "--format",
            help="The format, if the file name does not tell; trajectory: of each item a file of its model calls.",
            show_default=False,
        ),
    ] = None,
    columns: ShownColumns = None,
    journal: Journal = None,
) -> None:
    """Write a run's results to a file, in input order.

    The file is written completely or not at all. An active run exports its results so far.

    Example: graphmill export k7f2 results.jsonl --status succeeded
    """
    with open_existing(journal) as store:
        found = store.archive.find(run)
        reader = RunReader(found.id, OpenJournal(store))
        if file_format == "trajectory":
            print_stderr([_export_trajectories(found, reader.traces(status=status), file)])
            return
        require_own_file(file, journal=store.name)
        require_own_file_of(found, file)
        if file == "-":
            require_stdout()
        target = sink(file, format=file_format, columns=read_names(columns))
        results = _CountedResults(reader.results(status=status))
        _write(results, target)
        view = view_of(store.archive, found)
    print_stderr([_closing_line(view, results.count, file, status)])


def _export_trajectories(run: RunRecord, traces: Iterator[Trace], folder: str) -> str:
    """Write a file of model calls for each item; say how many."""
    if folder == "-":
        raise UsageError("trajectories are one file per item; name a folder for them")
    if run.options.get(RECORD_PROMPTS, True) is False:
        raise UsageError(f"run {run.id} did not record what was sent to models, so it has no trajectories")
    count = write_trajectories(traces, Path(folder))
    return f"run {run.id} is {run.status}: {count_text(count, 'file')} in {one_line(Path(folder).name, _NAME_CHARS)}"


def _write(results: _CountedResults, target: Sink) -> None:
    try:
        write_all(results, target, complete=True)
    except ExportError as error:
        if isinstance(error.__cause__, BrokenPipeError):  # a reader such as head has what it wants
            raise typer.Exit(ExitCode.OUTPUT) from None
        raise


class _CountedResults:
    """Results, counted as they are read."""

    def __init__(self, results: Iterator[Result]) -> None:
        self._results = results
        self.count = 0

    def __iter__(self) -> Iterator[Result]:
        for result in self._results:
            yield result
            self.count += 1


def _closing_line(view: RunView, count: int, file: str, status: str | None) -> str:
    """Say how many rows were written, and whether there will be more."""
    text = f"run {view.name} is {view.run.status}: {count_text(count, 'row') if count else 'no rows'}"
    if status is not None:
        text += f" {status}"
    if file != "-":
        text += f" in {one_line(Path(file).name, _NAME_CHARS)}"
    if view.left != 0:
        done = count if status is None else view.done  # an active run has more results by now
        total = "?" if view.run.total is None else f"{view.run.total:,}"
        text += f", so far {done:,} of {total} items"
    return text
