"""``graphmill errors``: the items of a run that failed, and what they have in common."""

from __future__ import annotations

from typing import Annotated

import typer

from graphmill.cli.answer import AsJson, tell, tell_json
from graphmill.cli.journal import Journal, RunName, opened
from graphmill.core.result import Kind
from graphmill.report.failures import (
    Failures,
    answer_lines,
    degraded_lines,
    failures_lines,
    failures_record,
    read_failures,
)
from graphmill.report.run_pages import retry_lines
from graphmill.report.run_view import RunView, view_of

_SHOWN = 20


def errors(
    run: RunName,
    *,
    kind: Annotated[Kind | None, typer.Option(help="Only failures of this kind.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="Show the first N items; all are counted.", min=0)] = _SHOWN,
    as_json: AsJson = False,
    journal: Journal = None,
) -> None:
    """Tell which items failed, and why.

    Example: graphmill errors k7f2 --kind timeout
    """
    with opened(journal) as store:
        found = store.archive.find(run)
        view = view_of(store.archive, found)
        letters = read_failures(store.archive, found, kind=kind, limit=limit)
    if as_json:
        tell_json(failures_record(letters) | {"summary": view.summary()})
    else:
        tell(_lines(view, letters, kind))


def _lines(view: RunView, letters: Failures, kind: Kind | None) -> list[str]:
    lines = [f"run {view.name} · {view.run.state} · {view.summary()}"]
    if not letters.failed:
        return [*lines, "no item failed" if kind is None else f"no item failed as {kind}", *degraded_lines(letters)]
    lines += [*failures_lines(letters), *degraded_lines(letters), *answer_lines(letters)]
    return lines if view.run.state.is_live else [*lines, *retry_lines(view, letters.failed, kind)]
