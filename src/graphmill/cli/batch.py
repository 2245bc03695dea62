"""``graphmill batch``: a workflow over the items of a source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from graphmill import api
from graphmill.cli.foreground import Foreground
from graphmill.cli.journal import AsJson, Journal
from graphmill.cli.options import Output, SourceFormat, WhenChanged
from graphmill.core.errors import UsageError
from graphmill.datasets.sink import partial_path
from graphmill.datasets.source import source
from graphmill.engine.policy import Policy, Retry
from graphmill.graph.workflow import load
from graphmill.journal.opening import default_journal

_DEFAULTS = Policy()


def batch(  # noqa: PLR0913  one parameter per option
    workflow: Annotated[str, typer.Argument(help="A workflow file, YAML or JSON.", show_default=False)],
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="Inputs fixed for all items.", show_default=False)
    ] = None,
    *,
    source_name: Annotated[
        str,
        typer.Option(
            "--source", "-s", metavar="FILE", help="Items: .jsonl, .json, .yaml, .csv, or - for standard input.", show_default=False
        ),
    ],
    source_format: SourceFormat = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="Take at most N items.", min=0)] = None,
    offset: Annotated[int, typer.Option(metavar="N", help="Pass over the first N items.", min=0, show_default=False)] = 0,
    id_field: Annotated[str | None, typer.Option("--id", metavar="FIELD", help="The field that holds an item's id.")] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", metavar="N", help="Attempts at once.")] = _DEFAULTS.concurrency,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Find how many at once what the items depend on can bear, up to the concurrency.")
    ] = False,
    retries: Annotated[
        int, typer.Option(metavar="N", help="Tries after the first, for failures that may pass.", min=0)
    ] = _DEFAULTS.retry.attempts - 1,
    timeout: Annotated[float | None, typer.Option(metavar="S", help="Seconds for one attempt.")] = _DEFAULTS.timeout_s,
    max_failures: Annotated[
        str | None, typer.Option(metavar="N|P%", help="Stop when more fail than this. Without it all items run, and any failure is exit 3.")
    ] = None,
    output: Output = None,
    run_id: Annotated[
        str | None,
        typer.Option("--run-id", metavar="ID", help="Record it under this id, or go on with the run of this id.", show_default=False),
    ] = None,
    on_change: WhenChanged = "refuse",
    tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="NAME=VALUE", help="Note this beside the run; may be given more than once.")
    ] = None,
    journal: Journal = None,
    no_journal: Annotated[bool, typer.Option("--no-journal", help="Record nothing: it can not be resumed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a workflow over the items of a source. It is recorded, and can be resumed whatever ends it.

    Example: graphmill batch examples/reviews.yaml --source reviews.jsonl --concurrency 8 --output results.jsonl

    Exit status: 0 all done, 2 usage, 3 more failures than tolerated, 5 parked, 65 damaged data, 74 output or journal, 75 owned elsewhere,
    129/130/143 signals.
    """
    if journal == "memory:":
        raise UsageError("a journal in memory is gone when the command ends; name a file, or say --no-journal")
    if no_journal and (run_id is not None or journal is not None):
        raise UsageError("--no-journal records nothing, and --run-id and --journal say where to record; leave one out")
    graph = load(workflow).with_inputs(dict(_input(text) for text in inputs or ()))
    items = source(source_name, format=source_format, offset=offset, limit=limit)
    policy = _policy(concurrency=concurrency, adaptive=adaptive, retries=retries, timeout=timeout, max_failures=max_failures)
    _require_apart(source_name, output)
    foreground = Foreground(
        title=graph.name,
        details=(f"items from {items.name}", f"concurrency {concurrency}{' (adaptive)' if adaptive else ''}"),
        output=output,
        as_json=as_json,
        is_recorded=not no_journal,
        if_idle="everything was done already" if run_id is not None else "",
        journal=journal,
    )
    notes = {"output": output if output in (None, "-") else str(Path(output).absolute()), "tags": dict(_tag(text) for text in tags or ())}
    foreground.perform(
        lambda watch: api.batch(
            graph,
            items,
            policy=policy,
            id_field=id_field,
            total=items.count(),
            keep_results=False,
            run_id=run_id,
            journal=None if no_journal else journal or default_journal(),
            notes=notes,
            on_change=on_change,
            sinks=watch.sinks,
            on_start=watch.on_start,
            on_progress=watch.on_progress,
        )
    )


def _policy(*, concurrency: int, adaptive: bool, retries: int, timeout: float | None, max_failures: str | None) -> Policy:
    """Make the policy; a value that it refuses is named as the option it came from."""
    tolerated = None if max_failures is None else _tolerance(max_failures)
    try:
        return Policy(
            concurrency=concurrency, adaptive=adaptive, retry=Retry(attempts=retries + 1), timeout_s=timeout, max_failures=tolerated
        )
    except UsageError as error:
        name, space, rest = str(error).partition(" ")
        option = {"concurrency": "--concurrency", "timeout_s": "--timeout", "max_failures": "--max-failures"}.get(name, name)
        raise UsageError(option + space + rest) from error


def _input(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"an input is written name=value, not {text!r}")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _tag(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"a tag is written name=value, not {text!r}")
    return name, value


def _tolerance(text: str) -> int | float:
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else int(text)
    except ValueError:
        raise UsageError(f"--max-failures is a number such as 10, or a share such as 5%, not {text!r}") from None


def _require_apart(source_name: str, output: str | None) -> None:
    if output is None or "-" in (source_name, output):
        return
    items, results = Path(source_name).resolve(), Path(output).resolve()
    if items in (results, partial_path(results)):
        raise UsageError(f"--source and --output are the same file, {source_name!r}; the results would replace the items")
