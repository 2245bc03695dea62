"""``graphmill models``: models and providers, and whether they respond."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from graphmill.api.models import ModelTest, ProviderCheck, reach, test
from graphmill.cli.terminal import AsJson, ExitCode, print_json, print_lines
from graphmill.core.errors import UsageError
from graphmill.graph.models.models import Models
from graphmill.report.models_page import models_lines, models_record, target_lines, target_record
from graphmill.report.text import align_columns, count_text

_MOST_LISTED = 20


def models(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A name, a role, or provider/model.", show_default=False)
    ] = None,
    *,
    is_checked: Annotated[
        bool, typer.Option("--check", help="Ask the providers which models they offer; free of charge.")
    ] = False,
    is_tested: Annotated[
        bool, typer.Option("--test", help="Call the model with one short prompt; costs a few tokens.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List models and providers, or describe one model.

    Models are named in graphmill.yaml. API keys come from the environment and are never shown.

    Exit status: 0 success, 2 usage, 69 a provider or model did not respond.

    Example: graphmill models openai/gpt-5-mini --test
    """
    if name is None and is_tested:
        raise UsageError("--test needs a model: graphmill models NAME --test")
    known = Models.here()
    if name is None:
        _show_all(known, is_checked=is_checked, as_json=as_json)
    else:
        _show_one(known, name, is_checked=is_checked, is_tested=is_tested, as_json=as_json)


def _show_all(known: Models, *, is_checked: bool, as_json: bool) -> None:
    found = {}
    if is_checked:
        found = {name: reach(name) for name in _reachable(known)}
    if as_json:
        record = models_record(known)
        if is_checked:
            record["check"] = {name: _reached_record(reached) for name, reached in found.items()}
        print_json(record)
    else:
        lines = models_lines(known)
        if found:
            lines += [
                "check",
                *align_columns([(f"  {name}", _reached_text(reached)) for name, reached in found.items()]),
            ]
        print_lines(lines)
    _exit(any(bool(reached.problem) for reached in found.values()))


def _show_one(known: Models, name: str, *, is_checked: bool, is_tested: bool, as_json: bool) -> None:
    target = known.shown(name)
    record = target_record(target)
    rows = []
    problems = []
    if is_checked:
        reached = reach(target.name)
        record["check"] = _reached_record(reached) | {"is_listed": target.model in reached.models}
        rows.append(("  check", _listed_text(target.model, reached)))
        problems.append(reached.problem)
    if is_tested:
        tested = test(name)
        record["test"] = tested._asdict()
        rows.append(("  test", _tested_text(tested)))
        problems.append(tested.problem)
    if as_json:
        print_json(record)
    else:
        print_lines(target_lines(name, target, rows))
    _exit(any(problems))


def _reachable(known: Models) -> list[str]:
    """Name the providers that can be asked: those that are configured, and those that have a key."""
    return [name for name in known.providers if name in known.settings.providers or not known.provider(name).lacking()]


def _reached_record(reached: ProviderCheck) -> dict[str, Any]:
    return {"problem": reached.problem} if reached.problem else {"models": list(reached.models)}


def _reached_text(reached: ProviderCheck) -> str:
    if reached.problem:
        return reached.problem
    text = f"{count_text(len(reached.models), 'model')}: {', '.join(reached.models[:_MOST_LISTED])}"
    more = len(reached.models) - _MOST_LISTED
    return f"{text} and {more} more" if more > 0 else text


def _listed_text(model: str, reached: ProviderCheck) -> str:
    if reached.problem:
        return reached.problem
    lists = "lists" if model in reached.models else "does not list"
    return f"responds, and {lists} {model}"


def _tested_text(tested: ModelTest) -> str:
    if tested.problem:
        return tested.problem
    return f"{tested.text!r:.80} from {tested.model}, {tested.tokens:,} tokens, {tested.seconds:.2f} s"


def _exit(has_failed: bool) -> None:  # noqa: FBT001
    if has_failed:
        raise typer.Exit(ExitCode.SERVICE)
