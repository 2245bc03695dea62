"""Going on with other models than a run was begun with: which nodes that changes, and what becomes of the results that are there."""

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
from graphmill.journal.intake import OnChange
from graphmill.journal.records import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherModels:
    """The graph with its new models; ``words`` tell of each node that this changes, by how changes are told else.

    ``on_change`` is what becomes of results: as was said or, where nothing was, they are kept, unless more than the models has changed.
    """

    graph: Graph
    words: Mapping[str, str]
    on_change: OnChange


class ModelParams(TypedDict, total=False):
    """What can be chosen of models beside which they are; None leaves it as it is."""

    temperature: float | None
    max_tokens: int | None


def other_models(
    run: RunRecord,
    graph: Callable[[Any], Any],
    models: Iterable[str],
    on_change: OnChange | None,
    **params: Unpack[ModelParams],
) -> OtherModels:
    """Choose models, as ``NAME`` or ``ROLE=NAME``, and their params over those that were chosen before."""
    if not isinstance(graph, Graph):
        raise _named_inside(run)
    now = graph.with_choices(graph.with_models(*models, **params).choices.over(graph.choices))
    others = _other_changes(run, graph)
    return OtherModels(
        graph=now, words=_words(now, graph, others), on_change=on_change or ("refuse" if others else "keep")
    )


def require_nodes(run: RunRecord) -> None:
    """Refuse to choose models for a run of a function, before that is looked for."""
    if run.manifest.get("graph", {}).get("kind") == "function":
        raise _named_inside(run)


def chosen_otherwise(run: RunRecord, graph: Callable[[Any], Any]) -> tuple[Mapping[str, str], str]:
    """Tell how the models that are chosen differ from those of a run, and the command that goes on with them."""
    noted = run.manifest.get("graph", {}).get("choices", {})
    if not isinstance(graph, Graph) or noted == graph.choices.to_json():
        return {}, ""
    before = replace(graph, choices=Choices.from_json(noted))
    others = _other_changes(run, before)
    return _words(graph, before, others), "" if others else _going_on(run.id, graph.choices, before.choices)


def _going_on(run_id: str, now: Choices, before: Choices) -> str:
    """Give the command that goes on with what is chosen now; none where there is no option for it, as for a seed."""
    models = [*filter(None, [now.model]), *(f"{role}={name}" for role, name in now.roles.items())]
    params = {
        name: value
        for name, value in now.params.items()
        if name in ModelParams.__annotations__ and value != before.params.get(name)
    }
    made = Choices.of(models, **params).over(before)
    if now.fingerprint not in ({}, made.fingerprint):  # where nothing is chosen, what was before will do
        return ""
    options = [
        *(f"--model {quote(each)}" for each in models),
        *(f"--{name.replace('_', '-')} {value}" for name, value in params.items()),
    ]
    return " ".join([f"graphmill resume {quote(run_id)}", *options])


def _named_inside(run: RunRecord) -> UsageError:
    return UsageError(
        f"the function of run {run.id} names its models itself: change them there, or what graphmill.yaml means by their names; "
        "models can be chosen for a workflow"
    )


def _words(now: Graph, before: Graph, others: Collection[str]) -> dict[str, str]:
    named = models_by_node(now)
    models = {
        f"{part} changed": (part, model)
        for part, model in _models_before(before).items()
        if named.get(part, model) != model
    }
    return {
        change: f"{f'{change}, and' if change in others else part} asks {named[part]}, not {model}"
        for change, (part, model) in models.items()
    }


def _models_before(graph: Graph) -> dict[str, str]:
    try:
        return models_by_node(graph)
    except UsageError:  # they are no longer set
        return {}


def _other_changes(run: RunRecord, graph: Graph) -> list[str]:
    """Tell what has changed beside the models that are chosen now."""
    options = run.manifest.get("options", {})
    try:
        return changed(run.manifest.get("fingerprints", {}), graph_fingerprints(graph, version=options.get("version")))
    except UsageError as error:
        return [str(error)]
