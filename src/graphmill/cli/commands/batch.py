"""``graphmill batch``: run a workflow over the items of a source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from graphmill import api
from graphmill.api.batch import policy_for, require_costs
from graphmill.api.items import MOST_SAMPLES, id_rule, prepare_items
from graphmill.api.recording import with_budget_of
from graphmill.cli.foreground import Foreground, has_score, say_recompute
from graphmill.cli.options import (
    RETRIES,
    TIMEOUT_S,
    Adaptive,
    BudgetUsd,
    Cache,
    Columns,
    Concurrency,
    Filters,
    Force,
    InputsFile,
    Journal,
    Limit,
    MaxTokens,
    Models,
    NoJournal,
    NoPrompts,
    Offset,
    Output,
    Rehearse,
    Retries,
    RunId,
    Sample,
    Seed,
    Shuffle,
    SkipBadRows,
    SourceFormat,
    Stratify,
    Temperature,
    Timeout,
    WhenChanged,
)
from graphmill.cli.terminal import AsJson, print_json, print_lines, print_note
from graphmill.cli.values import (
    concurrency_text,
    journal_place,
    open_existing,
    policy_of,
    read_columns,
    read_inputs,
    read_mapping,
    read_text,
    require_own_file,
    require_replaceable,
    split_pair,
)
from graphmill.core.errors import UnknownRunError, UsageError
from graphmill.core.usage import money_text, to_nano
from graphmill.datasets.source import Source as Items
from graphmill.datasets.source import source
from graphmill.engine.policy import Policy
from graphmill.graph.graph import Graph
from graphmill.graph.models.estimate import plan_calls
from graphmill.graph.models.nodes import models_used
from graphmill.graph.workflow import load, prompt_workflow
from graphmill.journal.resume import OnChange
from graphmill.report.dry_run import LOOKED_AT, DryRun
from graphmill.report.text import count_text

Inputs = Annotated[
    list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Inputs fixed for all items.", show_default=False)
]
Source = Annotated[
    str,
    typer.Option(
        "--source",
        "-s",
        metavar="SOURCE",
        help="Items: a file, a pattern such as 'data/*.jsonl', - (stdin), a dataset such as math500, hf:org/name, "
        "run:ID.",
    ),
]
Prompt = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="Call a model with this prompt for each item, without a workflow file. ${name} is a field of the item.",
        show_default=False,
    ),
]
PromptFile = Annotated[
    str | None, typer.Option("--prompt-file", metavar="FILE", help="Read the prompt from a file.", show_default=False)
]
System = Annotated[
    str | None, typer.Option(metavar="TEXT", help="The system prompt; with --prompt.", show_default=False)
]
Schema = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="A JSON Schema (.json or .yaml) for responses; with --prompt.", show_default=False
    ),
]
SamePrompt = Annotated[
    bool, typer.Option("--same-prompt", help="Allow a prompt without any ${name} field over more than one item.")
]
Samples = Annotated[
    int,
    typer.Option(
        metavar="N", help="Run each item N times, as ID, ID#2, ID#3, ...", min=1, max=MOST_SAMPLES, show_default=False
    ),
]
IdField = Annotated[str | None, typer.Option("--id", metavar="FIELD", help="The field that holds an item's id.")]
MaxFailures = Annotated[
    str | None,
    typer.Option(metavar="N|P%", help="Stop after more failures. Without it, all items run; any failure exits 3."),
]
_NO_FIELD = (
    "the prompt has no ${name} field, so it would be the same for every item; in a shell write it in '…', because "
    '"…" '
    "replaces ${name}; if you mean it, use --same-prompt"
)
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="NAME=VALUE", help="Label the run. Repeatable.")]


def batch(  # noqa: PLR0913  one parameter per option
    workflow: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKFLOW", help="A workflow file, YAML or JSON; not with --prompt.", show_default=False
        ),
    ] = None,
    inputs: Inputs = None,
    *,
    source_name: Source,
    prompt: Prompt = None,
    prompt_file: PromptFile = None,
    system: System = None,
    schema: Schema = None,
    same_prompt: SamePrompt = False,
    models: Models = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    seed: Seed = None,
    cache: Cache = None,
    source_format: SourceFormat = None,
    columns: Columns = None,
    filters: Filters = None,
    shuffle: Shuffle = None,
    sample: Sample = None,
    stratify: Stratify = None,
    skip_bad_rows: SkipBadRows = False,
    limit: Limit = None,
    offset: Offset = 0,
    samples: Samples = 1,
    id_field: IdField = None,
    inputs_file: InputsFile = None,
    concurrency: Concurrency = None,
    adaptive: Adaptive = None,
    budget: BudgetUsd = None,
    retries: Retries = RETRIES,
    timeout: Timeout = TIMEOUT_S,
    max_failures: MaxFailures = None,
    output: Output = None,
    force: Force = False,
    scorers: Annotated[
        list[str] | None,
        typer.Option(
            "--scorer", metavar="NAME", help="Score the answers when all have run. Repeatable.", show_default=False
        ),
    ] = None,
    run_id: RunId = None,
    on_change: WhenChanged = "refuse",
    tags: Tags = None,
    journal: Journal = None,
    no_journal: NoJournal = False,
    no_record_prompts: NoPrompts = False,
    rehearse: Rehearse = None,  # noqa: ARG001  begun by the option itself
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would run, and what it may cost, and send nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a workflow over the items of a source.

    The run is recorded, and can be resumed after a stop, a crash or kill -9.

    Example: graphmill batch examples/reviews.yaml --source reviews.jsonl --concurrency 8 --output results.jsonl

    Example: graphmill batch --prompt 'Translate: ${text}' --model openai/gpt-5-mini --source texts.jsonl

    Exit status: 0 success, 2 usage, 3 failures, 4 stopped by the budget, 5 paused, 65 bad data, 74 output or journal
    not writable, 75 run active elsewhere, 129/130/143 signals.
    """
    place = journal_place(journal, run_id, no_journal=no_journal)
    if scorers and no_journal:
        raise UsageError("--scorer needs a journal; leave out --no-journal")
    graph, pairs = _graph(workflow, inputs or (), prompt=_prompt(prompt, prompt_file), system=system, schema=schema)
    graph = graph.with_models(*(models or ()), temperature=temperature, max_tokens=max_tokens, seed=seed, cache=cache)
    graph = graph.with_inputs(read_inputs(graph, pairs, inputs_file))
    items = source(
        source_name,
        format=source_format,
        columns=read_columns(columns or ()),
        filters=[split_pair(text, "a filter", form="FIELD=VALUE") for text in filters or ()],
        shuffle=shuffle,
        sample=sample,
        stratify=stratify,
        offset=offset,
        limit=limit,
        skip_bad_rows=skip_bad_rows,
        journal=journal,
    )
    prepare_items(items, run_id=run_id, journal=place)
    asked = policy_of(
        concurrency=concurrency,
        adaptive=adaptive,
        retries=retries,
        timeout=timeout,
        max_failures=max_failures,
        budget=budget,
    )
    policy = policy_for(graph, asked)
    total = items.count()
    require_own_file(output, items=source_name, workflow=workflow)
    foreground = Foreground(
        title=graph.name,
        details=_details(graph, items.name, samples, policy),
        output=output,
        as_json=as_json,
        is_recorded=not no_journal,
        shows_items=has_score(graph.outputs),
        if_idle="nothing to do: every item already has a result" if run_id is not None else "",
        if_empty=_empty_text(items),
        journal=place,
    )
    if (prompt or prompt_file) and not (same_prompt or graph.inputs) and _has_several(items, total):
        raise UsageError(_NO_FIELD)
    if run_id is not None and place is not None:
        policy = _with_earlier(graph, policy, run_id, place, on_change, is_dry=dry_run)
    if dry_run:
        require_costs(graph, policy)
        _show_dry_run(graph, items, policy, samples=samples, id_field=id_field, total=total, as_json=as_json)
        return
    require_replaceable(output, place, force=force)
    notes = _notes(output, tags or ())
    foreground.perform(
        lambda watching: api.batch(
            graph,
            items,
            policy=policy,
            id_field=id_field,
            total=total,
            samples=samples,
            keep_results=False,
            run_id=run_id,
            journal=place,
            notes=notes,
            on_change=on_change,
            record_prompts=False if no_record_prompts else None,
            scorers=scorers or (),
            **watching,
        )
    )


def _with_earlier(
    graph: Graph, policy: Policy, run_id: str, place: str | Path, on_change: OnChange, *, is_dry: bool
) -> Policy:
    """Say what a run that exists does again; return the policy with its budget."""
    with suppress(UnknownRunError), open_existing(place) as store:
        found = store.archive.find(run_id)
        if found.id == run_id:
            if is_dry:
                print_note(f"run {run_id} exists and reuses what is recorded; this estimate is for all items anew")
            say_recompute(store.archive, found, graph, on_change)
            return with_budget_of(found, policy)
    return policy


def _show_dry_run(
    graph: Graph,
    items: Items,
    policy: Policy,
    *,
    samples: int,
    id_field: str | None,
    total: int | None,
    as_json: bool,
) -> None:
    """Show what would run; nothing is sent, recorded or written."""
    id_of = id_rule(items, id_field)
    first = list(enumerate(islice(items, LOOKED_AT)))
    planned = [(str(id_of(item, at) or at + 1), plan_calls(graph, item)) for at, item in first]
    if total is None and len(first) < LOOKED_AT:
        total = len(first)
    shown = DryRun(
        title=graph.name,
        details=(
            "? items" if total is None else count_text(total, "item"),
            *_details(graph, items.name, samples, policy),
        ),
        jobs=None if total is None else total * samples,
        limits=tuple(_limits(policy)),
        budget_nano=None if policy.budget_usd is None else to_nano(policy.budget_usd),
        items=planned,
    )
    if as_json:
        print_json(shown.to_json())
    else:
        print_lines(shown.lines())


def _limits(policy: Policy) -> Iterator[str]:
    yield f"{policy.slots} at once"
    yield f"{policy.retry.attempts} attempts"
    if policy.timeout_s is not None:
        yield f"timeout {policy.timeout_s:g} s"
    yield "no budget" if policy.budget_usd is None else f"budget {money_text(to_nano(policy.budget_usd))}"


def _has_several(items: Items, total: int | None) -> bool:
    """Whether there is more than one item; what cannot be read twice may have more."""
    if total is None and items.origin.is_stored:
        total = sum(1 for _ in islice(items, 2))
    return total is None or total > 1


def _details(graph: Graph, source_name: str, samples: int, policy: Policy) -> tuple[str, ...]:
    items = f"items from {source_name}"
    if samples > 1:
        items += f", {samples} samples of each"
    return (items, *models_used(graph), concurrency_text(graph, policy))


def _empty_text(items: Items) -> str:
    text = f"note: {items.name} has no items"
    if not items.selection.is_by_place:
        text += " that --filter or --sample selects"
    elif items.selection.offset or items.selection.limit is not None:
        text += " within --offset and --limit"
    return text


def _prompt(prompt: str | None, file: str | None) -> str | None:
    if file is None:
        return prompt
    if prompt is not None:
        raise UsageError("--prompt and --prompt-file are both given; leave one out")
    text = read_text(Path(file))
    if not text.strip():
        raise UsageError(f"--prompt-file {file!r} is empty")
    return text


def _graph(
    workflow: str | None, inputs: Sequence[str], *, prompt: str | None, system: str | None, schema: str | None
) -> tuple[Graph, Sequence[str]]:
    """Return the workflow, from a file or made of a prompt, and its NAME=VALUE pairs."""
    if prompt is not None:
        # Without a workflow argument the first NAME=VALUE takes its place.
        pairs = inputs if workflow is None else [workflow, *inputs]
        return _prompt_graph(prompt, pairs, system=system, schema=schema), pairs
    if workflow is None:
        raise UsageError("name a workflow file, or give --prompt and --model")
    for option, value in (("--system", system), ("--schema", schema)):
        if value is not None:
            raise UsageError(f"{option} needs --prompt; in a workflow, set it as a param of the llm node")
    return load(workflow), inputs


def _prompt_graph(prompt: str, pairs: Sequence[str], *, system: str | None, schema: str | None) -> Graph:
    if pairs and "=" not in pairs[0]:
        raise UsageError(f"--prompt and the workflow {pairs[0]!r} are both given; leave one out")
    if not prompt.strip():
        raise UsageError("--prompt is empty; in a shell write it in '…', because \"…\" replaces ${name}")
    shape = read_mapping(schema, option="--schema", holds="a JSON Schema")
    return prompt_workflow(prompt, system=system, schema=shape if schema is not None else None)


def _notes(output: str | None, tags: Iterable[str]) -> dict[str, Any]:
    """Return what the manifest records for a resume and for people."""
    if output is not None and output != "-":
        output = str(Path(output).absolute())
    return {"output": output, "tags": dict(split_pair(tag, "a tag") for tag in tags)}
