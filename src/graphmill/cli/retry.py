"""``graphmill retry``: run the failed items of a run again."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from graphmill import api
from graphmill.cli.answer import AsJson
from graphmill.cli.chosen import chosen_of, told_models
from graphmill.cli.journal import Journal, RunName, journal_place, opened
from graphmill.cli.one_job import foreground_of
from graphmill.cli.options import Concurrency, MaxTokens, Models, Output, Temperature, Timeout
from graphmill.cli.policy import policy_again
from graphmill.cli.resume import output_of
from graphmill.report.run_view import graph_name


def retry(  # noqa: PLR0913  one parameter per option
    run: RunName,
    *,
    items: Annotated[
        list[str] | None,
        typer.Option("--item", metavar="ID", help="Only this item; may be given more than once.", show_default=False),
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="Only failures of this kind; may be given more than once.",
            show_default=False,
        ),
    ] = None,
    concurrency: Concurrency = None,
    models: Models = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
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
    run's from now on, as what `--temperature` and `--max-tokens` say is.

    Example: graphmill retry k7f2 --kind timeout
    """
    with opened(journal) as store:
        found = store.archive.find(run)
    chosen = chosen_of(models, temperature, max_tokens)
    place = journal_place(journal, found.id)
    foreground = foreground_of(
        found,
        title=f"the failed items of {graph_name(found.manifest)} again",
        output=output or output_of(found),
        as_json=as_json,
        journal=place,
        details=told_models(found, chosen, on_change),
    )
    foreground.perform(
        lambda watching: api.retry(
            found.id,
            items=items,
            kinds=kinds,
            journal=place,
            policy=policy_again(found, timeout),
            concurrency=concurrency,
            on_change=on_change,
            **chosen,
            **watching,
        )
    )
