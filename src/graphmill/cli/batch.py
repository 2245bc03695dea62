"""``graphmill batch``: a workflow over the items of a source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from graphmill import api
from graphmill.api.batch import policy_for
from graphmill.api.items import MOST_SAMPLES
from graphmill.cli.answer import AsJson
from graphmill.cli.foreground import Foreground
from graphmill.cli.inputs import InputsFile, inputs_given, mapping_in, text_in
from graphmill.cli.journal import Journal, NoJournal, RunId, journal_place, require_two_files, require_workflow_kept
from graphmill.cli.options import (
    RETRIES,
    TIMEOUT_S,
    Cache,
    Concurrency,
    MaxTokens,
    Models,
    Output,
    Retries,
    Seed,
    SourceFormat,
    Temperature,
    Timeout,
    WhenChanged,
)
from graphmill.cli.policy import policy_of
from graphmill.cli.stderr import tell_note
from graphmill.core.errors import UsageError
from graphmill.datasets.source import source
from graphmill.graph.graph import Graph
from graphmill.graph.models.nodes import asked_models
from graphmill.graph.workflow import load, prompt_workflow

Inputs = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="Inputs fixed for all items.", show_default=False)
]
Source = Annotated[
    str,
    typer.Option(
        "--source",
        "-s",
        metavar="FILE",
        help="Items: .jsonl, .json, .yaml, .csv, or - for standard input.",
        show_default=False,
    ),
]
Prompt = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="Ask a model this for each item, with no workflow file; ${name} is a field of the item.",
        show_default=False,
    ),
]
PromptFile = Annotated[
    str | None,
    typer.Option("--prompt-file", metavar="FILE", help="The same, as a file of text holds it.", show_default=False),
]
System = Annotated[
    str | None, typer.Option(metavar="TEXT", help="What the model is told first; with --prompt.", show_default=False)
]
Schema = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="A JSON Schema, as .json or .yaml, that each answer must fit; with --prompt.",
        show_default=False,
    ),
]
Limit = Annotated[int | None, typer.Option(metavar="N", help="Take at most N items.", min=0)]
Offset = Annotated[int, typer.Option(metavar="N", help="Pass over the first N items.", min=0, show_default=False)]
Samples = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="Do each item N times, as ID, ID#2, ID#3 and so on.",
        min=1,
        max=MOST_SAMPLES,
        show_default=False,
    ),
]
IdField = Annotated[str | None, typer.Option("--id", metavar="FIELD", help="The field that holds an item's id.")]
Adaptive = Annotated[
    bool,
    typer.Option("--adaptive", help="Find how many at once what the items depend on can bear, up to the concurrency."),
]
MaxFailures = Annotated[
    str | None,
    typer.Option(
        metavar="N|P%", help="Stop when more fail than this. Without it all items run, and any failure is exit 3."
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="NAME=VALUE", help="Note this beside the run; may be given more than once."),
]


def batch(  # noqa: PLR0913  one parameter per option
    workflow: Annotated[
        str | None,
        typer.Argument(
            metavar="[WORKFLOW]", help="A workflow file, YAML or JSON; without one, give --prompt.", show_default=False
        ),
    ] = None,
    inputs: Inputs = None,
    *,
    source_name: Source,
    prompt: Prompt = None,
    prompt_file: PromptFile = None,
    system: System = None,
    schema: Schema = None,
    models: Models = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    seed: Seed = None,
    cache: Cache = None,
    source_format: SourceFormat = None,
    limit: Limit = None,
    offset: Offset = 0,
    samples: Samples = 1,
    id_field: IdField = None,
    inputs_file: InputsFile = None,
    concurrency: Concurrency = None,
    adaptive: Adaptive = False,
    retries: Retries = RETRIES,
    timeout: Timeout = TIMEOUT_S,
    max_failures: MaxFailures = None,
    output: Output = None,
    run_id: RunId = None,
    on_change: WhenChanged = "refuse",
    tags: Tags = None,
    journal: Journal = None,
    no_journal: NoJournal = False,
    as_json: AsJson = False,
) -> None:
    """Run a workflow over the items of a source. It is recorded, and can be resumed whatever ends it.

    Example: graphmill batch examples/reviews.yaml --source reviews.jsonl --concurrency 8 --output results.jsonl

    Example: graphmill batch --prompt 'Translate: ${text}' --model openai/gpt-5-mini --source texts.jsonl

    Exit status: 0 all done, 2 usage, 3 more failures than tolerated, 5 parked, 65 damaged data, 74 output or journal, 75 owned elsewhere,
    129/130/143 signals.
    """
    place = journal_place(journal, run_id, no_journal=no_journal)
    graph, given = _graph(workflow, inputs or (), prompt=_prompt(prompt, prompt_file), system=system, schema=schema)
    graph = graph.with_models(*(models or ()), temperature=temperature, max_tokens=max_tokens, seed=seed, cache=cache)
    graph = graph.with_inputs(inputs_given(graph, given, inputs_file))
    items = source(source_name, format=source_format, offset=offset, limit=limit)
    asked = policy_of(
        concurrency=concurrency, adaptive=adaptive, retries=retries, timeout=timeout, max_failures=max_failures
    )
    policy = policy_for(graph, asked)
    require_two_files(source_name, output)
    require_workflow_kept(workflow, output)
    foreground = Foreground(
        title=graph.name,
        details=(
            f"items from {items.name}{f', {samples} samples of each' if samples > 1 else ''}",
            *asked_models(graph),
            f"concurrency {policy.slots}{' (adaptive)' if adaptive else ''}",
        ),
        output=output,
        as_json=as_json,
        is_recorded=not no_journal,
        if_idle="everything was done already" if run_id is not None else "",
        if_empty=f"note: {items.name} holds no items"
        + (" between --offset and --limit" if offset or limit is not None else ""),
        journal=place,
    )
    notes = _notes(output, tags or ())
    foreground.perform(
        lambda watching: api.batch(
            graph,
            items,
            policy=policy,
            id_field=id_field,
            total=items.count(),
            samples=samples,
            keep_results=False,
            run_id=run_id,
            journal=place,
            notes=notes,
            on_change=on_change,
            **watching,
        )
    )


def _prompt(prompt: str | None, file: str | None) -> str | None:
    """Give the prompt, however it is given."""
    if file is None:
        return prompt
    if prompt is not None:
        raise UsageError("--prompt and --prompt-file are both given; leave one out")
    text = text_in(Path(file))
    if not text.strip():
        raise UsageError(f"--prompt-file {file!r} is empty")
    return text


def _graph(
    workflow: str | None, inputs: Sequence[str], *, prompt: str | None, system: str | None, schema: str | None
) -> tuple[Graph, Sequence[str]]:
    """Give the workflow that is named, or that a prompt is, and the inputs beside it."""
    if prompt is None:
        if workflow is None:
            raise UsageError("name a workflow file, or give --prompt and --model")
        for option, value in (("--system", system), ("--schema", schema)):
            if value is not None:
                raise UsageError(f"{option} needs --prompt; a workflow has its own, as a param of its llm node")
        return load(workflow), inputs
    if workflow is not None and "=" not in workflow:
        raise UsageError(f"--prompt and the workflow {workflow!r} are both given; leave one out")
    if not prompt.strip():
        raise UsageError(
            "--prompt is empty; in a shell it stands within '…', for within \"…\" ${name} is replaced by nothing"
        )
    shape = None if schema is None else mapping_in(Path(schema), option="--schema", holds="a JSON Schema is a mapping")
    graph = prompt_workflow(prompt, system=system, schema=shape)
    if not graph.inputs:
        tell_note(
            "the prompt names no field of the items, and asks the same for each; ${name} is one, in a shell within '…', not \"…\""
        )
    return graph, [*([] if workflow is None else [workflow]), *inputs]


def _notes(output: str | None, tags: Iterable[str]) -> dict[str, Any]:
    """Give what the manifest notes for a resume and for people."""
    return {"output": output if output in (None, "-") else str(Path(output).absolute()), "tags": dict(map(_tag, tags))}


def _tag(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"a tag is written name=value, not {text!r}")
    return name, value
