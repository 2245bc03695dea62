"""``graphmill batch``: a workflow over the items of a source."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from graphmill import api
from graphmill.cli.display import Display, tell_error
from graphmill.cli.exit_code import ExitCode
from graphmill.cli.interruption import Interruption
from graphmill.core.errors import ExportError, SourceError, UsageError
from graphmill.core.json_text import to_json
from graphmill.core.result import StopReason
from graphmill.datasets.sink import FileSink, Sink, partial_path, sink
from graphmill.datasets.source import FileSource, source
from graphmill.engine.policy import Policy, Retry
from graphmill.graph.workflow import load
from graphmill.report.record import report_record
from graphmill.report.report import Report

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
    source_format: Annotated[
        str | None, typer.Option("--source-format", metavar="FORMAT", help="jsonl, json, yaml or csv, where the name does not say.")
    ] = None,
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
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write results here: .jsonl, .json, .csv, or - for standard output."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
) -> None:
    """Run a workflow over the items of a source.

    Example: graphmill batch examples/reviews.yaml --source reviews.jsonl --concurrency 8 --output results.jsonl

    Exit status: 0 all done, 2 usage, 3 more failures than tolerated, 5 parked, 65 damaged source, 74 output, 129/130/143 signals.
    """
    if as_json and output == "-":
        raise UsageError("--json and --output - both want standard output; write the results to a file")
    graph = load(workflow).with_inputs(dict(_input(text) for text in inputs or ()))
    items = source(source_name, format=source_format)
    policy = _policy(concurrency=concurrency, adaptive=adaptive, retries=retries, timeout=timeout, max_failures=max_failures)
    _require_apart(source_name, output)
    target = None if output is None else sink(output)
    display = Display(f"{graph.name} · items from {items.name} · concurrency {concurrency}{' (adaptive)' if adaptive else ''}")
    with Interruption(display, target) as interruption, display, redirect_stdout(sys.stderr):  # user code must not print among results
        report, error = _run(
            graph,
            _sliced(items, offset, limit),
            policy=policy,
            id_field=id_field,
            total=_total(items, offset, limit),
            sinks=[] if target is None else [target],
            keep_results=False,
            on_start=interruption.watch,
            on_progress=display.show,
        )
    is_told = _tell(report, error, as_json=as_json, to_stderr=output == "-")
    _tell_partial(target)
    if interruption.code is not None:
        if error is not None:
            tell_error(error)
        raise typer.Exit(interruption.code)
    if error is not None:
        raise error
    raise typer.Exit(_exit_code(report, is_told=is_told))


def _exit_code(report: Report, *, is_told: bool) -> ExitCode:
    if report.stopped is StopReason.PARKED:
        return ExitCode.PAUSED
    if report.is_failure:
        return ExitCode.FAILURES
    return ExitCode.DONE if is_told else ExitCode.OUTPUT


def _run(*args: Any, **options: Any) -> tuple[Report, SourceError | ExportError | None]:
    """Run the batch; what ended it early still has a report."""
    try:
        return api.batch(*args, **options), None
    except (SourceError, ExportError) as error:
        return error.report, error


def _tell(report: Report, error: Exception | None, *, as_json: bool, to_stderr: bool) -> bool:
    """Print the summary; tell whether it could be printed, which is no reason to forget how the run ended."""
    try:
        if as_json:
            typer.echo(to_json(report_record(report, error)))
        else:
            typer.echo("\n".join([report.closing_line(), *report.error_lines()]), err=to_stderr)
    except OSError as trouble:
        if not isinstance(trouble, BrokenPipeError):  # a reader that is gone knows why
            tell_error(trouble)
        return False
    return True


def _tell_partial(target: Sink | None) -> None:
    if isinstance(target, FileSink) and target.is_partial and target.written is not None:
        typer.echo(f"the run did not reach its end; its rows are in {target.written.name}", err=True)


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


def _sliced(items: FileSource, offset: int, limit: int | None) -> Iterator[Any]:
    yield from islice(items, offset, None if limit is None else offset + limit)


def _total(items: FileSource, offset: int, limit: int | None) -> int | None:
    count = items.count()
    if count is None:
        return None
    left = max(0, count - offset)
    return left if limit is None else min(left, limit)
