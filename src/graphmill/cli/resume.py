"""``graphmill resume``: go on with a run."""

from __future__ import annotations

from typing import Annotated

import typer

from graphmill import api
from graphmill.cli.answer import AsJson, tell
from graphmill.cli.answers import Answers, AnswersFile, answers_given
from graphmill.cli.asking import ask, not_answered, stands
from graphmill.cli.chosen import chosen_of, told_models
from graphmill.cli.journal import Journal, RunName, journal_place, opened, require_two_files
from graphmill.cli.one_job import foreground_of
from graphmill.cli.options import (
    Concurrency,
    MaxTokens,
    Models,
    Output,
    SourceFormat,
    Temperature,
    Timeout,
    WhenResumed,
)
from graphmill.cli.policy import policy_again
from graphmill.datasets.source import source
from graphmill.journal.ports import Store
from graphmill.journal.records import Request, RunRecord, RunState
from graphmill.report.run_view import graph_name


def resume(  # noqa: PLR0913  one parameter per option
    run: RunName,
    *,
    source_name: Annotated[
        str | None,
        typer.Option(
            "--source",
            "-s",
            metavar="FILE",
            help="Take the items from here, not from where they came.",
            show_default=False,
        ),
    ] = None,
    source_format: SourceFormat = None,
    concurrency: Concurrency = None,
    models: Models = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
    on_change: WhenResumed = None,
    answer: Answers = None,
    answers_file: AnswersFile = None,
    output: Output = None,
    journal: Journal = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a run: do what is not done. One that `pause` holds goes on where it is.

    What has a result is not run again; items that are new in the source are run. An item that waits for an answer goes on when it
    is given one. Workflow, source, policy and output are those that the run was begun with, unless they are given here. With `--model`
    it goes on with another model, as when a provider is out of credit; finished results stay, also with `--temperature` and `--max-tokens`.

    Example: graphmill resume k7f2 --concurrency 16
    """
    chosen = chosen_of(models, temperature, max_tokens)
    answers = answers_given(answer or (), answers_file)
    with opened(journal) as store:
        found = store.archive.find(run)
        is_as_it_was = {source_name, concurrency, timeout, on_change, output} == {None} and not answers and not chosen
        if (
            found.state is RunState.HELD and is_as_it_was
        ):  # else that is for its process to refuse, not to be passed over
            _release(store, found)
            return
        results = sum(count.number for count in store.archive.counts(found))
    target = output or output_of(found)
    require_two_files(source_name, target)
    place = journal_place(journal, found.id)
    items = None if source_name is None else source(source_name, format=source_format)
    foreground = foreground_of(
        found,
        title=f"going on with {graph_name(found.manifest)}",
        output=target,
        as_json=as_json,
        journal=place,
        details=told_models(found, chosen, on_change, results=results),
        if_idle="everything was done already",
    )
    foreground.perform(
        lambda watching: api.resume(
            found.id,
            answers=answers,
            items=items,
            journal=place,
            policy=policy_again(found, timeout),
            concurrency=concurrency,
            on_change=on_change,
            **chosen,
            **watching,
        )
    )


def output_of(run: RunRecord) -> str | None:
    """Tell where a run writes its rows; standard output is not the one it was begun with."""
    found = run.manifest.get("options", {}).get("output")
    return found if isinstance(found, str) and found != "-" else None


def _release(store: Store, run: RunRecord) -> None:
    now = ask(store.archive, run, Request("unpause"), lambda now: now.state is not RunState.HELD)
    tell([not_answered(run) if now is None else stands(now)])
