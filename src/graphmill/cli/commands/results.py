"""``graphmill results``: the items of a run as a table."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from graphmill.cli.options import Journal, RunName, ShownColumns
from graphmill.cli.terminal import AsJson, print_json, print_lines, terminal_width
from graphmill.cli.values import open_existing, read_names, split_pair
from graphmill.datasets.selection import FieldFilter
from graphmill.report.results_page import ResultsQuery, results_lines, results_page, results_record

_SHOWN = 20


def results(
    run: RunName,
    *,
    status: Annotated[
        Literal["succeeded", "failed", "timed_out", "cancelled", "waiting", "degraded", "partial"] | None,
        typer.Option(help="Only results with this status, or this flag.", show_default=False),
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="FIELD=VALUE",
            help="Only results whose output, input or row has this value. Repeatable.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="Show at most N items.", min=1)] = _SHOWN,
    offset: Annotated[int, typer.Option(metavar="N", help="Skip the first N items.", min=0, show_default=False)] = 0,
    columns: ShownColumns = None,
    as_json: AsJson = False,
    journal: Journal = None,
) -> None:
    """List the items of a run: how each ended, what went in and what came out.

    The number in front names an item in other commands, as does the start of its id.

    Example: graphmill results k7f2 --status failed --columns row,id,error.message
    """
    shown = read_names(columns) or []
    wanted = [FieldFilter(*split_pair(text, "a filter", form="FIELD=VALUE")) for text in filters or ()]
    query = ResultsQuery(status=status, filters=wanted, offset=offset, limit=limit)
    with open_existing(journal) as store:
        page = results_page(store.archive, store.archive.find(run), query)
    if as_json:
        print_json(results_record(page, shown))
    else:
        print_lines(results_lines(page, shown, terminal_width()))
