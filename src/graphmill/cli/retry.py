"""``graphmill retry``: run the failed items of a run again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from graphmill import api
from graphmill.cli.answer import AsJson
from graphmill.cli.journal import Journal, RunName, journal_place, opened
from graphmill.cli.one_job import foreground_of
from graphmill.cli.options import Concurrency, Models, Output
from graphmill.cli.resume import model_changes, output_of
from graphmill.core.result import FAILURES
from graphmill.journal.intake import OnChange
from graphmill.journal.ports import Store
from graphmill.journal.records import RunRecord
from graphmill.report.run_view import graph_name


def retry(  # noqa: PLR0913  one parameter per option
    run: RunName,
    *,
    items: Annotated[
        list[str] | None, typer.Option("--item", metavar="ID", help="Only this item; may be given more than once.", show_default=False)
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Only failures of this kind; may be given more than once.", show_default=False),
    ] = None,
    concurrency: Concurrency = None,
    models: Models = None,
    on_change: Annotated[
        Literal["refuse", "keep"] | None,
        typer.Option(
            "--on-change",
            help="If the workflow is not what it was: refuse, or keep what succeeded. Without it a change is refused, "
            "but one of --model alone is kept.",
            show_default=False,
        ),
    ] = None,
    output: Output = None,
    journal: Journal = None,
    as_json: AsJson = False,
) -> None:
    """Run the failed items of a run again.

    They run with the inputs that were recorded. What succeeded stays. With `--model` they are asked of another model, which is the
    run's from now on.

    Example: graphmill retry k7f2 --kind timeout
    """
    with opened(journal) as store:
        found = store.archive.find(run)
        changes = _changes(store, found, models, on_change) if models else ()
    place = journal_place(journal, found.id)
    foreground = foreground_of(
        found,
        title=f"the failed items of {graph_name(found.manifest)} again",
        output=output or output_of(found),
        as_json=as_json,
        journal=place,
        details=changes,
    )
    foreground.perform(
        lambda watching: api.retry(
            found.id,
            items=items,
            kinds=kinds,
            journal=place,
            concurrency=concurrency,
            models=models or (),
            on_change=on_change,
            **watching,
        )
    )


def _changes(store: Store, run: RunRecord, models: Sequence[str], on_change: OnChange | None) -> tuple[str, ...]:
    stand = sum(count.number for count in store.archive.counts(run) if count.status not in FAILURES)
    return model_changes(run, models, on_change, results=stand)
