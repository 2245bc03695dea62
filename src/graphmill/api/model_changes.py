"""Resume with other models than a run started with: which nodes that changes, and what happens to existing results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, TypedDict, Unpack

from graphmill.core.errors import UsageError
from graphmill.core.fingerprint import changed
from graphmill.graph.fingerprint import graph_fingerprints
from graphmill.graph.graph import Graph
from graphmill.graph.models.models import Choices
from graphmill.graph.models.nodes import models_by_node
from graphmill.journal.records import RunRecord
from graphmill.journal.resume import OnChange


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChange:
    """The graph with its new models; ``words`` describe each node this changes, by the usual text of that change.

    ``on_change`` is as given; by default results are kept, unless more than the models changed.
    """

    graph: Graph
    words: Mapping[str, str]
    on_change: OnChange


class ModelParams(TypedDict, total=False):
    """Params of models that can be changed; None leaves one as it is."""

    temperature: float | None
    max_tokens: int | None


def change_models(
    run: RunRecord,
    graph: Callable[[Any], Any],
    models: Iterable[str],
    on_change: OnChange | None,
    **params: Unpack[ModelParams],
) -> ModelChange:
    """Apply models, as ``NAME`` or ``ROLE=NAME``, and their params on top of earlier choices."""
    if not isinstance(graph, Graph):
        raise _models_in_code(run)
    now = graph.with_choices(graph.with_models(*models, **params).choices.over(graph.choices))
    others = _other_changes(run, graph)
    return ModelChange(
        graph=now, words=_words(now, graph, others), on_change=on_change or ("refuse" if others else "keep")
    )


def require_nodes(run: RunRecord) -> None:
    """Refuse to choose models for a run of a function, before the function is loaded."""
    if run.graph.get("kind") == "function":
        raise _models_in_code(run)


def describe_model_changes(run: RunRecord, graph: Callable[[Any], Any]) -> tuple[Mapping[str, str], str]:
    """Say how the chosen models differ from those of a run, and the command that resumes with them."""
    noted = run.graph.get("choices", {})
    if not isinstance(graph, Graph) or noted == graph.choices.to_json():
        return {}, ""
    before = replace(graph, choices=Choices.from_json(noted))
    others = _other_changes(run, before)
    return _words(graph, before, others), "" if others else _resume_command(run.id, graph.choices, before.choices)


def _resume_command(run_id: str, now: Choices, before: Choices) -> str:
    """Return the command that resumes with the current choices; empty if it has no option for one, such as a seed."""
    models = [*filter(None, [now.model]), *(f"{role}={name}" for role, name in now.roles.items())]
    params = {
        name: value
        for name, value in now.params.items()
        if name in ModelParams.__annotations__ and value != before.params.get(name)
    }
    made = Choices.of(models, **params).over(before)
    if now.fingerprint not in ({}, made.fingerprint):  # with no choice now, the earlier one still applies
        return ""
    options = [
        *(f"--model {quote(each)}" for each in models),
        *(f"--{name.replace('_', '-')} {value}" for name, value in params.items()),
    ]
    return " ".join([f"graphmill resume {quote(run_id)}", *options])


def _models_in_code(run: RunRecord) -> UsageError:
    return UsageError(
        f"--model only works for workflows; run {run.id} is a function that picks its own models: change them there, "
        "or what their names mean in graphmill.yaml"
    )


def _words(now: Graph, before: Graph, others: Collection[str]) -> dict[str, str]:
    named = models_by_node(now)
    models = {
        f"{part} changed": (part, model)
        for part, model in _models_before(before).items()
        if named.get(part, model) != model
    }
    return {
        change: (f"{change}, and" if change in others else part) + f" asks {named[part]}, not {model}"
        for change, (part, model) in models.items()
    }


def _models_before(graph: Graph) -> dict[str, str]:
    try:
        return models_by_node(graph)
    except UsageError:  # they are no longer configured
        return {}


def _other_changes(run: RunRecord, graph: Graph) -> list[str]:
    """List what changed besides the models."""
    options = run.options
    try:
        return changed(run.manifest.get("fingerprints", {}), graph_fingerprints(graph, version=options.get("version")))
    except UsageError as error:
        return [str(error)]
