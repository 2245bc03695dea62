"""``graphmill show``: one run in short, or one of its items in full."""

from __future__ import annotations

from typing import Annotated

import typer

from graphmill.cli.answer import AsJson, tell, tell_json
from graphmill.cli.journal import Journal, RunName, opened
from graphmill.core.errors import UsageError
from graphmill.core.job import JOB_ID
from graphmill.core.json import item_key
from graphmill.core.suggest import suggestion
from graphmill.journal.ports import Archive
from graphmill.journal.records import History, Query, RunRecord, RunState
from graphmill.report.item import item_lines, item_record
from graphmill.report.run_pages import page_lines, page_record, run_page
from graphmill.report.run_view import view_of
from graphmill.report.trace import TracePart, trace_of
from graphmill.report.trace_page import part_record, step_lines

_MOST_IDS = 20_000  # among which a nearly right one is looked for
_MOST_PATHS = 5000


def show(
    run: RunName,
    item: Annotated[str | None, typer.Argument(metavar="[ITEM]", help="An item's id.", show_default=False)] = None,
    *,
    step: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Only this step, in full, or this part of the steps.", show_default=False),
    ] = None,
    as_json: AsJson = False,
    journal: Journal = None,
) -> None:
    """Show a run in short, or one of its items in full.

    Of an item all steps are drawn, with their paths' parts under each other: describe[3] is item 3 of the batch node describe,
    debate@2/solve the step solve in round 2 of the loop debate.

    Example: graphmill show k7f2 HumanEval/118 --step debate@2/solve
    """
    with opened(journal) as store:
        found = store.archive.find(run)
        if step is not None:
            name = item or _only_item(store.archive, found)
            part = _part(_history(store.archive, found, name), name, step)
            answer, lines = {"run": found.id, "id": name, **part_record(part)}, step_lines(part)
        elif item is None:
            page = run_page(store, found)
            answer, lines = page_record(page), page_lines(page)
        else:
            history = _history(store.archive, found, item)
            answer, lines = item_record(found, item, history), item_lines(found, item, history)
    if as_json:
        tell_json(answer)
    else:
        tell(lines)


def _only_item(archive: Archive, run: RunRecord) -> str:
    if view_of(archive, run).is_single:
        return JOB_ID
    raise UsageError(f"--step is of one item; name it: graphmill show {run.id} ITEM --step PATH")


def _part(history: History, item: str, path: str) -> TracePart:
    trace = trace_of(history.steps, history.attempts)
    found = trace.find(path)
    if found is None or found is trace:
        known = [branch.path for branch in trace.walk()]
        raise UsageError(f"item {item!r:.80} has no step {path!r:.80}{suggestion(path, known[:_MOST_PATHS])}")
    return found


def _history(archive: Archive, run: RunRecord, item: str) -> History:
    history = archive.history(run, item_key(item))
    if history.entries or history.attempts or history.steps or history.wanted or history.suspect:
        return history
    ids = [entry.result.job_id for entry in archive.entries(run, Query(limit=_MOST_IDS))]
    rest = "" if run.state is RunState.FINISHED else "; it has not come so far, or there is none of that id"
    raise UsageError(f"run {run.id!r} holds nothing of an item {item!r:.80}{rest or suggestion(item, ids)}")
