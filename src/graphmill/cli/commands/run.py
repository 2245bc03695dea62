"""``graphmill run``: run a workflow once."""

from __future__ import annotations

from typing import Annotated

import typer

from graphmill import api
from graphmill.api.batch import policy_for
from graphmill.api.run import single
from graphmill.cli.foreground import SingleForeground
from graphmill.cli.options import (
    RETRIES,
    TIMEOUT_S,
    Adaptive,
    BudgetUsd,
    Cache,
    Concurrency,
    InputsFile,
    Journal,
    MaxTokens,
    Models,
    NoJournal,
    NoPrompts,
    Rehearse,
    Retries,
    RunId,
    Seed,
    Temperature,
    Timeout,
    WhenChanged,
)
from graphmill.cli.terminal import AsJson
from graphmill.cli.values import (
    concurrency_text,
    journal_place,
    policy_of,
    read_inputs,
)
from graphmill.graph.models.nodes import models_used
from graphmill.graph.workflow import load


def run(  # noqa: PLR0913  one parameter per option
    workflow: Annotated[
        str, typer.Argument(metavar="WORKFLOW", help="A workflow file, YAML or JSON.", show_default=False)
    ],
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Inputs of the workflow.", show_default=False)
    ] = None,
    *,
    inputs_file: InputsFile = None,
    concurrency: Concurrency = None,
    adaptive: Adaptive = None,
    budget: BudgetUsd = None,
    retries: Retries = RETRIES,
    timeout: Timeout = TIMEOUT_S,
    models: Models = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    seed: Seed = None,
    cache: Cache = None,
    run_id: RunId = None,
    on_change: WhenChanged = "refuse",
    journal: Journal = None,
    no_journal: NoJournal = False,
    no_record_prompts: NoPrompts = False,
    rehearse: Rehearse = None,  # noqa: ARG001  begun by the option itself
    as_json: AsJson = False,
) -> None:
    """Run a workflow once and print its outputs.

    The run is recorded, and can be resumed after a stop, a crash or kill -9.

    Example: graphmill run examples/reviews.yaml review="Good, but late." customer=Ada

    Exit status: 0 success, 2 usage, 3 failed, 4 stopped by the budget, 5 paused, 65 bad data, 74 output or journal not
    writable, 75 run active elsewhere, 129/130/143 signals.
    """
    place = journal_place(journal, run_id, no_journal=no_journal)
    graph = load(workflow)
    graph = graph.with_models(*(models or ()), temperature=temperature, max_tokens=max_tokens, seed=seed, cache=cache)
    item = single(graph, read_inputs(graph, inputs or (), inputs_file))
    policy = policy_for(
        graph, policy_of(concurrency=concurrency, adaptive=adaptive, retries=retries, timeout=timeout, budget=budget)
    )
    foreground = SingleForeground(
        title=graph.name,
        details=(*models_used(graph), concurrency_text(graph, policy)),
        output=None,
        as_json=as_json,
        is_recorded=not no_journal,
        if_idle="nothing to do: it already has a result" if run_id is not None else "",
        journal=place,
        item=item,
    )
    foreground.perform(
        lambda watching: api.batch(
            graph,
            item,
            policy=policy,
            run_id=run_id,
            journal=place,
            on_change=on_change,
            record_prompts=False if no_record_prompts else None,
            **watching,
        )
    )
