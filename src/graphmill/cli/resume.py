"""``graphmill resume``: go on with a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from graphmill import api
from graphmill.api.other_models import other_models, require_nodes
from graphmill.api.resume import graph_of
from graphmill.cli.answer import AsJson, tell
from graphmill.cli.answers import Answers, AnswersFile, answers_given
from graphmill.cli.asking import ask, not_answered, stands
from graphmill.cli.journal import Journal, RunName, journal_place, opened, require_two_files
from graphmill.cli.one_job import foreground_of
from graphmill.cli.options import Concurrency, Models, Output, SourceFormat, WhenResumed
from graphmill.datasets.source import source
from graphmill.journal.intake import OnChange
from graphmill.journal.ports import Store
from graphmill.journal.records import Request, RunRecord, RunState
from graphmill.report.run_view import graph_name
from graphmill.report.text import counted


def resume(  # noqa: PLR0913  one parameter per option
    run: RunName,
    *,
    source_name: Annotated[
        str | None,
        typer.Option("--source", "-s", metavar="FILE", help="Take the items from here, not from where they came.", show_default=False),
    ] = None,
    source_format: SourceFormat = None,
    concurrency: Concurrency = None,
    models: Models = None,
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
    it goes on with another model, as when a provider is out of credit; finished results stay.

    Example: graphmill resume k7f2 --concurrency 16
    """
    require_two_files(source_name, output)
    answers = answers_given(answer or (), answers_file)
    with opened(journal) as store:
        found = store.archive.find(run)
        is_as_it_was = (source_name, concurrency, models, on_change, output) == (None,) * 5 and not answers
        if found.state is RunState.HELD and is_as_it_was:  # else that is for its process to refuse, not to be passed over
            _release(store, found)
            return
        changes = _changes(store, found, models, on_change) if models else []
    place = journal_place(journal, found.id)
    items = None if source_name is None else source(source_name, format=source_format)
    foreground = foreground_of(
        found,
        title=f"going on with {graph_name(found.manifest)}",
        output=output or output_of(found),
        as_json=as_json,
        journal=place,
        details=tuple(changes),
        if_idle="everything was done already",
    )
    foreground.perform(
        lambda watching: api.resume(
            found.id,
            answers=answers,
            items=items,
            journal=place,
            concurrency=concurrency,
            models=models or (),
            on_change=on_change,
            **watching,
        )
    )


def _changes(store: Store, run: RunRecord, models: Sequence[str], on_change: OnChange | None) -> list[str]:
    """Tell which nodes ask another model from now on, and what becomes of the results that are there."""
    require_nodes(run)
    other = other_models(run, graph_of(run), models, on_change)
    results = sum(count.number for count in store.archive.counts(run))
    fate = {"keep": "kept", "invalidate": "made otherwise"}.get(other.on_change)
    return [*other.words.values(), *([f"{counted(results, 'result')} {fate}"] if results and other.words and fate else [])]


def output_of(run: RunRecord) -> str | None:
    """Tell where a run writes its rows; standard output is not the one it was begun with."""
    found = run.manifest.get("options", {}).get("output")
    return found if isinstance(found, str) and found != "-" else None


def _release(store: Store, run: RunRecord) -> None:
    now = ask(store.archive, run, Request("unpause"), lambda now: now.state is not RunState.HELD)
    tell([not_answered(run) if now is None else stands(now)])
