"""A run of one job in the foreground of a command: its outputs go to standard output, all that is said about it to standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import typer

from graphmill.api.items import Single
from graphmill.api.run import only_result
from graphmill.cli.answer import json_line, require_stdout
from graphmill.cli.foreground import Foreground
from graphmill.cli.journal import opened, require_other_file
from graphmill.cli.width import fitted
from graphmill.core.errors import GraphmillError
from graphmill.core.job import JOB_ID
from graphmill.core.json import item_key
from graphmill.core.result import Result
from graphmill.datasets.row import row_of
from graphmill.journal.records import RunRecord
from graphmill.report.batch_text import batch_lines, batches_of
from graphmill.report.report import Report
from graphmill.report.text import job_lines, output_text
from graphmill.report.trace import TracePart, trace_of
from graphmill.report.usage import usage_record


def foreground_of(run: RunRecord, *, output: str | None, **given: Any) -> Foreground:
    """Show a recorded run that goes on as it was shown when it was begun, unless its rows are to be written."""
    require_other_file(run, output)
    single = Single.noted(run.manifest.get("source") or {})
    if single is None or output is not None:
        return Foreground(output=output, is_recorded=True, **given)
    return OneJob(output=None, is_recorded=True, item=single, **given)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneJob(Foreground):
    """How a command shows a run of one job."""

    item: Single

    def tell(self, report: Report, error: GraphmillError | None, written: Path | None) -> None:  # noqa: ARG002  it writes no rows
        """Print the job's outputs, or its row, and how it went."""
        if error is not None:  # which is told by itself
            return
        result = only_result(report, self.item)
        if not (result.is_success or result.is_failure):  # it goes on later: what it took is the run's time so far
            result = msgspec.structs.replace(result, duration_s=report.statistics.elapsed_s)
        if self.as_json:
            typer.echo(
                json_line(row_of(result) | {"run": report.run_id, "usage": usage_record(report.statistics.usage)})
            )
            require_stdout()
            return
        if result.is_success:
            typer.echo(_fit(output_text(result.output)))
        typer.echo("\n".join(fitted(self._about(report, result, error), sys.stderr)), err=True)
        if result.is_success:
            require_stdout()

    def _about(self, report: Report, result: Result, error: GraphmillError | None) -> Iterable[str]:
        batches = batches_of(self._trace(report), result.output)
        shown = [f"  {line}" for view in batches for line in batch_lines(view)]
        return [
            *self.idle(report, error),
            *job_lines(result),
            *report.usage_lines(),
            *shown,
            *self.next_steps(report, error),
        ]

    def _trace(self, report: Report) -> TracePart:
        """Read the steps of a job that is recorded."""
        if report.run_id is None:
            return trace_of(())
        with opened(self.journal) as store:
            return trace_of(store.archive.history(store.archive.find(report.run_id), item_key(JOB_ID)).steps)


def _fit(text: str) -> str:
    """Give text as it is; on a terminal, and where it is none, without what a terminal would obey or no encoding has."""
    plain = text.encode(errors="backslashreplace").decode()
    if not sys.stdout.isatty():
        return plain
    return "".join(char if char.isprintable() or char in "\n\t" else " " for char in plain)
