"""``graphmill run``: one job of a workflow."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import typer

from graphmill import api
from graphmill.api.policy import policy_for
from graphmill.api.run import only_result, single
from graphmill.api.single import Single
from graphmill.cli.answer import AsJson, json_line
from graphmill.cli.foreground import Foreground
from graphmill.cli.inputs import InputsFile, inputs_given
from graphmill.cli.journal import Journal, NoJournal, RunId, journal_place, opened
from graphmill.cli.options import RETRIES, TIMEOUT_S, Concurrency, Retries, Timeout, WhenChanged
from graphmill.cli.policy import policy_of
from graphmill.cli.width import fitted
from graphmill.core.errors import GraphmillError
from graphmill.core.identity import JOB_ID
from graphmill.core.keys import item_key
from graphmill.core.result import Result
from graphmill.datasets.row import row_of
from graphmill.graph.workflow import load
from graphmill.report.batch_text import batch_lines, batches_of
from graphmill.report.job_text import job_lines
from graphmill.report.output_text import output_text
from graphmill.report.report import Report
from graphmill.report.trace import Branch, trace_of


def run(  # noqa: PLR0913  one parameter per option
    workflow: Annotated[str, typer.Argument(help="A workflow file, YAML or JSON.", show_default=False)],
    inputs: Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="The job's inputs.", show_default=False)] = None,
    *,
    inputs_file: InputsFile = None,
    concurrency: Concurrency = None,
    retries: Retries = RETRIES,
    timeout: Timeout = TIMEOUT_S,
    run_id: RunId = None,
    on_change: WhenChanged = "refuse",
    journal: Journal = None,
    no_journal: NoJournal = False,
    as_json: AsJson = False,
) -> None:
    """Run a workflow once and print its outputs. It is recorded, and can be resumed whatever ends it.

    Example: graphmill run examples/reviews.yaml review="Good, but late."

    Exit status: 0 done, 2 usage, 3 failed, 5 parked, 65 damaged data, 74 output or journal, 75 owned elsewhere, 129/130/143 signals.
    """
    place = journal_place(journal, run_id, no_journal=no_journal)
    graph = load(workflow)
    item = single(graph, inputs_given(graph, inputs or (), inputs_file))
    policy = policy_for(graph, policy_of(concurrency=concurrency, retries=retries, timeout=timeout))
    foreground = OneJob(
        title=graph.name,
        details=(f"concurrency {policy.slots}",),
        output=None,
        as_json=as_json,
        is_recorded=not no_journal,
        if_idle="it was done already" if run_id is not None else "",
        journal=journal,
        item=item,
    )
    foreground.perform(
        lambda watching: api.batch(graph, item, policy=policy, run_id=run_id, journal=place, on_change=on_change, **watching)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneJob(Foreground):
    """A run of one job: its outputs go to standard output, all that is said about it to standard error."""

    item: Single

    def tell(self, report: Report, error: GraphmillError | None) -> None:
        """Print the job's outputs, or its row, and how it went."""
        if error is not None:  # which is told by itself
            return
        result = only_result(report, self.item)
        if self.as_json:
            typer.echo(json_line(row_of(result) | {"run": report.run_id}))
            return
        if result.is_success:
            typer.echo(_fit(output_text(result.output)))
        typer.echo("\n".join(fitted(self._about(report, result, error), sys.stderr)), err=True)

    def _about(self, report: Report, result: Result, error: GraphmillError | None) -> Iterable[str]:
        batches = batches_of(self._trace(report), result.output)
        shown = [f"  {line}" for view in batches for line in batch_lines(view)]
        return [*self.idle(report, error), *job_lines(result), *shown, *self.next_steps(report, error)]

    def _trace(self, report: Report) -> Branch:
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
