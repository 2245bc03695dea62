"""``graphmill errors``: the failed items of a run, grouped by error."""

from __future__ import annotations

from typing import Annotated

import typer

from graphmill.cli.options import Journal, RunName
from graphmill.cli.terminal import AsJson, print_json, print_lines
from graphmill.cli.values import open_existing
from graphmill.core.result import Kind
from graphmill.journal.records import RunState
from graphmill.report.failures import (
    Failures,
    answer_lines,
    failures_lines,
    failures_record,
    flagged_lines,
    read_failures,
)
from graphmill.report.next_commands import retry_lines
from graphmill.report.run_view import RunView, view_of
from graphmill.report.text import one_line

_SHOWN = 20
_REASON_CHARS = 300


def errors(
    run: RunName,
    *,
    kind: Annotated[Kind | None, typer.Option(help="Only failures of this kind.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="Show the first N items.", min=0)] = _SHOWN,
    as_json: AsJson = False,
    journal: Journal = None,
) -> None:
    """List the items that failed, and why.

    Example: graphmill errors k7f2 --kind timeout
    """
    with open_existing(journal) as store:
        found = store.archive.find(run)
        view = view_of(store.archive, found)
        failures = read_failures(store.archive, found, kind=kind, limit=limit)
    if as_json:
        print_json(failures_record(failures) | {"summary": view.summary()})
    else:
        print_lines(_lines(view, failures, kind))


def _lines(view: RunView, failures: Failures, kind: Kind | None) -> list[str]:
    lines = [f"run {view.name} · {view.run.status} · {view.summary()}"]
    if not failures.failed:
        only = "" if kind is None else f" with kind {kind}"
        lines.append(f"no item failed{only}")
        if view.run.state is RunState.FAILED and view.reason:
            lines.append(f"the run failed: {one_line(view.reason, _REASON_CHARS)}")
        lines += flagged_lines(failures)
    else:
        lines += [*failures_lines(failures), *flagged_lines(failures), *answer_lines(failures)]
    if not view.run.is_live:
        lines += retry_lines(view, failures.failed, kind)
    return lines
