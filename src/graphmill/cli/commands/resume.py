"""``graphmill resume``: run the unfinished items of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from graphmill import api
from graphmill.cli.commands.control import reply_text, send_request
from graphmill.cli.foreground import foreground_of, model_choices, model_details, output_of, say_recompute
from graphmill.cli.options import (
    Adaptive,
    Answers,
    AnswersFile,
    BudgetUsd,
    Concurrency,
    Force,
    Journal,
    MaxTokens,
    Models,
    Output,
    RunName,
    SourceFormat,
    Temperature,
    Timeout,
    WhenResumed,
)
from graphmill.cli.terminal import AsJson, print_lines
from graphmill.cli.values import (
    answers_by_id,
    journal_place,
    note_of_output,
    open_existing,
    policy_changed,
    read_answers,
    require_own_file,
    require_replaceable,
)
from graphmill.datasets.source import noted_choices, source
from graphmill.journal.journal import Journal as OpenJournal
from graphmill.journal.records import HELD, RunRequest


def resume(  # noqa: PLR0913  one parameter per option
    run: RunName,
    *,
    source_name: Annotated[
        str | None,
        typer.Option(
            "--source",
            "-s",
            metavar="SOURCE",
            help="Read the items from here instead of from the run's source, and select as the run does.",
            show_default=False,
        ),
    ] = None,
    source_format: SourceFormat = None,
    concurrency: Concurrency = None,
    adaptive: Adaptive = None,
    budget: BudgetUsd = None,
    models: Models = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
    on_change: WhenResumed = None,
    answer: Answers = None,
    answers_file: AnswersFile = None,
    output: Output = None,
    force: Force = False,
    journal: Journal = None,
    as_json: AsJson = False,
) -> None:
    """Resume a run: run its unfinished items.

    Runs the items that have no result, and new items of the source. Workflow, source, policy and output are those of
    the run, unless given here. A run paused by `pause` continues in its own process. --model continues with another
    model, for example when a provider is out of credit; finished results are kept.

    Example: graphmill resume k7f2 --concurrency 16
    """
    choices = model_choices(models, temperature, max_tokens)
    answers = read_answers(answer or (), answers_file)
    with open_existing(journal) as store:
        found = store.archive.find(run)
        answers = answers_by_id(store.archive, found, answers)
        is_unchanged = (
            {source_name, concurrency, adaptive, budget, timeout, on_change, output} == {None}
            and not answers
            and not choices
        )
        if found.status == HELD and is_unchanged:  # with changes, its process refuses the second owner
            now = send_request(store.archive, found, RunRequest("unpause"), lambda now: now.status != HELD)
            print_lines([reply_text(found, now)])
            return
        results = sum(count.number for count in store.archive.counts(found)) if choices else 0
        target = output or output_of(found)
        require_own_file(target, items=source_name)
        items = None
        if source_name is not None:
            choices_of_items = noted_choices(found.source)
            items = source(source_name, format=source_format, journal=journal, **choices_of_items)
        foreground = foreground_of(
            found,
            title=f"resuming {found.graph_name}",
            output=target,
            as_json=as_json,
            journal=journal_place(journal, found.id),
            store=store,
            details=model_details(found, choices, on_change, results=results),
            if_idle="nothing to do: every item already has a result",
        )
        require_replaceable(output, store, force=force)
        if not choices:
            say_recompute(store.archive, found, None, on_change)
        foreground.perform(
            lambda watching: api.resume(
                found,
                answers=answers,
                items=items,
                journal=OpenJournal(store),
                policy=policy_changed(found, timeout=timeout, adaptive=adaptive, budget=budget),
                concurrency=concurrency,
                on_change=on_change,
                notes=note_of_output(found, output),
                **choices,
                **watching,
            )
        )
