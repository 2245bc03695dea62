"""``graphmill show``: a run in short, or one of its items in full."""

from __future__ import annotations

from typing import Annotated

import typer

from graphmill.cli.options import (
    By,
    Cluster,
    Journal,
    OptionalItem,
    RunName,
)
from graphmill.cli.terminal import AsJson, print_json, print_lines, terminal_width
from graphmill.cli.values import open_existing
from graphmill.core.errors import UsageError
from graphmill.core.job import JOB_ID
from graphmill.core.suggest import suggestion
from graphmill.journal.item_name import NamedItem, find_item
from graphmill.journal.records import RunRecord
from graphmill.journal.store import Archive
from graphmill.report.item.page import item_lines, item_record, item_scores, item_trace
from graphmill.report.item.trace import TracePart
from graphmill.report.item.trace_page import part_record, step_lines
from graphmill.report.run_pages import manifest_lines, page_lines, page_record, run_page
from graphmill.report.run_view import view_of

_MOST_PATHS = 5000


def show(  # noqa: PLR0913  one parameter per option
    run: RunName,
    item: OptionalItem = None,
    *,
    step: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Show this step in full, or this part of the trace.", show_default=False),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show long messages and answers whole.")] = False,
    by: By = None,
    cluster: Cluster = None,
    manifest: Annotated[bool, typer.Option("--manifest", help="Show what the run was started with.")] = False,
    as_json: AsJson = False,
    journal: Journal = None,
) -> None:
    """Show a run in short, or one of its items in full.

    The steps of an item are drawn as a tree, with what was sent to models and what they answered. In a path,
    describe[3] is item 3 of the batch node describe, and debate@2/solve is the step solve in round 2 of the loop
    debate.

    Example: graphmill show k7f2 HumanEval/118 --step debate@2/solve
    """
    with open_existing(journal) as store:
        found = store.archive.find(run)
        if step is not None:
            name = item or _only_item(store.archive, found)
            named = find_item(store.archive, found, name, with_calls=True)
            part = _part(found, named, step)
            answer, lines = {"run": found.id, "id": named.id, **part_record(part)}, step_lines(part)
        elif item is None:
            page = run_page(store, found, by=by or (), cluster=cluster)
            answer = page_record(page)
            lines = manifest_lines(page) if manifest else page_lines(page, terminal_width())
        else:
            named = find_item(store.archive, found, item, with_calls=True)
            scores = item_scores(store.archive, found, named.history)
            answer = item_record(found, *named, scores)
            lines = item_lines(found, *named, scores, is_full=full)
    if as_json:
        print_json(answer)
    else:
        print_lines(lines)


def _only_item(archive: Archive, run: RunRecord) -> str:
    if view_of(archive, run).is_single:
        return JOB_ID
    raise UsageError(f"--step needs an item: graphmill show {run.id} ITEM --step PATH")


def _part(run: RunRecord, item: NamedItem, path: str) -> TracePart:
    trace = item_trace(run, *item)
    found = trace.find(path)
    if found is None or found is trace:
        known = [branch.path for branch in trace.walk()]
        raise UsageError(f"item {item.id!r:.80} has no step {path!r:.80}{suggestion(path, known[:_MOST_PATHS])}")
    return found
