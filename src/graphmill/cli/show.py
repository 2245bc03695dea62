"""``graphmill show``: one run in short, or one of its items in full."""

from __future__ import annotations

from typing import Annotated

import typer

from graphmill.cli.answer import tell, tell_json
from graphmill.cli.journal import AsJson, Journal, RunName, opened
from graphmill.core.errors import UsageError
from graphmill.core.keys import item_key
from graphmill.core.names import suggestion
from graphmill.journal.ports import Archive
from graphmill.journal.records import History, Query, RunRecord
from graphmill.report.item_page import item_lines, item_record
from graphmill.report.run_page import page_lines, page_record, run_page

_MOST_IDS = 20_000  # among which a nearly right one is looked for


def show(
    run: RunName,
    item: Annotated[str | None, typer.Argument(metavar="[ITEM]", help="An item's id.", show_default=False)] = None,
    *,
    as_json: AsJson = False,
    journal: Journal = None,
) -> None:
    """Show a run in short, or one of its items in full.

    Example: graphmill show k7f2 HumanEval/118
    """
    with opened(journal) as store:
        found = store.archive.find(run)
        if item is None:
            page = run_page(store, found)
            answer, lines = page_record(page), page_lines(page)
        else:
            history = _history(store.archive, found, item)
            answer, lines = item_record(found, item, history), item_lines(found, item, history)
    if as_json:
        tell_json(answer)
    else:
        tell(lines)


def _history(archive: Archive, run: RunRecord, item: str) -> History:
    history = archive.history(run, item_key(item))
    if history.entries or history.attempts or history.steps or history.wanted or history.suspect:
        return history
    ids = [entry.result.job_id for entry in archive.entries(run, Query(limit=_MOST_IDS))]
    raise UsageError(f"run {run.id!r} holds nothing of an item {item!r:.80}{suggestion(item, ids)}")
