"""``graphmill retry``: run the failed items of a run again."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from graphmill import api
from graphmill.api.other_models import other_models, require_nodes
from graphmill.api.resume import graph_of
from graphmill.cli.answer import AsJson
from graphmill.cli.journal import Journal, RunName, journal_place, opened
from graphmill.cli.one_job import foreground_of
from graphmill.cli.options import Concurrency, Models, Output
from graphmill.cli.resume import output_of
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
    if models:
        require_nodes(found)
    place = journal_place(journal, found.id)
    foreground = foreground_of(
        found,
        title=f"the failed items of {graph_name(found.manifest)} again",
        output=output or output_of(found),
        as_json=as_json,
        journal=place,
        details=tuple(other_models(found, graph_of(found), models, on_change).words.values()) if models else (),
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
