"""``graphmill retry``: run the failed items of a run again."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from graphmill import api
from graphmill.cli.foreground import foreground_of, model_choices, model_details, output_of
from graphmill.cli.options import (
    Adaptive,
    BudgetUsd,
    Concurrency,
    Force,
    Journal,
    MaxTokens,
    Models,
    Output,
    RunName,
    Temperature,
    Timeout,
)
from graphmill.cli.terminal import AsJson
from graphmill.cli.values import (
    item_ids,
    journal_place,
    note_of_output,
    open_existing,
    policy_changed,
    require_replaceable,
)
from graphmill.journal.journal import Journal as OpenJournal
from graphmill.report.text import count_text


def retry(  # noqa: PLR0913  one parameter per option
    run: RunName,
    *,
    items: Annotated[
        list[str] | None,
        typer.Option(
            "--item", metavar="ITEM", help="Only this item, by row number or id. Repeatable.", show_default=False
        ),
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Only failures of this kind. Repeatable.", show_default=False),
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="The partial items, instead of the failed ones.")] = False,
    resample: Annotated[
        bool,
        typer.Option(
            "--resample", help="Also where a model refused, or its answer was cut or did not fit: ask for another."
        ),
    ] = False,
    concurrency: Concurrency = None,
    adaptive: Adaptive = None,
    budget: BudgetUsd = None,
    models: Models = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
    on_change: Annotated[
        Literal["refuse", "keep"] | None,
        typer.Option(
            "--on-change",
            help="What to do if the workflow changed: refuse, or keep results. [default: refuse; with --model: keep]",
            show_default=False,
        ),
    ] = None,
    output: Output = None,
    force: Force = False,
    journal: Journal = None,
    as_json: AsJson = False,
) -> None:
    """Run the failed items of a run again.

    A refusal, or an answer that was cut or did not fit, is an answer: it is asked for again only with --resample.
    With --partial, those that succeeded with less than all. Items run with the inputs that were recorded; other
    results are kept. --model, --temperature and --max-tokens change the run's models from now on.

    Example: graphmill retry k7f2 --kind timeout
    """
    with open_existing(journal) as store:
        found = store.archive.find(run)
        named = None if items is None else item_ids(store.archive, found, items)
        choices = model_choices(models, temperature, max_tokens)
        foreground = foreground_of(
            found,
            title=f"retrying {_selected(items, partial=partial)} of {found.graph_name}",
            output=output or output_of(found),
            as_json=as_json,
            journal=journal_place(journal, found.id),
            store=store,
            details=model_details(found, choices, on_change),
        )
        require_replaceable(output, store, force=force)
        foreground.perform(
            lambda watching: api.retry(
                found,
                items=named,
                kinds=kinds,
                partial=partial,
                resample=resample,
                journal=OpenJournal(store),
                policy=policy_changed(found, timeout=timeout, adaptive=adaptive, budget=budget),
                concurrency=concurrency,
                on_change=on_change,
                notes=note_of_output(found, output),
                **choices,
                **watching,
            )
        )


def _selected(items: list[str] | None, *, partial: bool) -> str:
    if items:
        return count_text(len(items), "item")
    return "the partial items" if partial else "the failed items"
