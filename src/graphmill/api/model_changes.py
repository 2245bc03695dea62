"""Resume after a change, of models or of the workflow: what that changes, and what it does again at which cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, NamedTuple, TypedDict, Unpack

from graphmill.core.errors import UsageError
from graphmill.core.fingerprint import changed
from graphmill.core.job import without_numbers
from graphmill.core.usage import NO_USAGE, Usage, money_text
from graphmill.graph.fingerprint import graph_fingerprints
from graphmill.graph.graph import Graph
from graphmill.graph.models.models import Choices
from graphmill.graph.models.nodes import models_by_node
from graphmill.journal.bodies import usage_from
from graphmill.journal.records import ItemHistory, Query, RunRecord
from graphmill.journal.resume import OnChange
from graphmill.journal.store import Archive


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


class Recompute(NamedTuple):
    """How many calls are reused and how many are made again, by node, and what the latter cost the last time.

    ``is_upper_bound`` says that some of the latter may be reused: the part that changed has several nodes inside.
    ``is_estimate`` says that there are more items than were looked at.
    """

    reused: Mapping[str, int]
    again: Mapping[str, int]
    cost_nano: int
    unpriced: int
    is_upper_bound: bool
    is_estimate: bool

    def __str__(self) -> str:
        parts = [f"{count:,} {name} calls reused" for name, count in self.reused.items()]
        most = "up to " if self.is_upper_bound else ""
        parts += [f"{most}{count:,} {name} calls again" for name, count in self.again.items()]
        if self.cost_nano:
            parts.append(f"about {money_text(self.cost_nano)}")
        if self.unpriced:
            parts.append(f"{self.unpriced:,} of them had no price")
        if self.is_estimate:
            parts.append(f"estimated from the first {_LOOKED_AT:,} items")
        return ", ".join(parts)


_LOOKED_AT = 2000  # items; of more the rest is estimated


def plan_recompute(
    archive: Archive, run: RunRecord, graph: Callable[[Any], Any], on_change: OnChange | None
) -> Recompute | None:
    """Return what redoing the results of a changed workflow takes; None if unchanged, or without model calls."""
    if not isinstance(graph, Graph):
        return None
    edited = _edited_nodes(run, graph, on_change)
    if not edited:
        return None
    redone = _with_dependents(graph, edited)
    place = {node_id: number for number, node_id in enumerate(graph.nodes)}
    used, is_estimate = _current_usage(archive, run)
    calls = {name: used[name].requests for name in sorted(used, key=lambda name: place.get(_node_id(name), len(place)))}
    again = {name: count for name, count in calls.items() if _node_id(name) in redone}
    if not again:
        return None
    total = sum((used[name] for name in again), NO_USAGE)
    return Recompute(
        reused={name: count for name, count in calls.items() if name not in again},
        again=again,
        cost_nano=total.cost_nano,
        unpriced=total.unpriced,
        is_upper_bound=any(graph.nodes[node_id].child is not None for node_id in redone),
        is_estimate=is_estimate,
    )


def _edited_nodes(run: RunRecord, graph: Graph, on_change: OnChange | None) -> set[str]:
    """Return the nodes that changed; before an invalidate also those whose change was kept until now."""
    before = run.manifest.get("fingerprints", {})
    parts = set(changed(before, graph_fingerprints(graph, version=run.options.get("version"))))
    if on_change == "invalidate":
        parts.update(run.manifest.get("kept", ()))
    return {node_id for node_id in graph.nodes if any(part.startswith(f"node {node_id!r} ") for part in parts)}


def _current_usage(archive: Archive, run: RunRecord) -> tuple[Mapping[str, Usage], bool]:
    """Return what the calls behind the current results used, by node, and whether that is scaled up from the first."""
    used: dict[str, Usage] = {}
    items = 0
    for history in archive.histories(run, Query(limit=_LOOKED_AT), with_calls=False):
        items += 1
        for node, usage in _calls_of(history):
            used[node] = used.get(node, NO_USAGE) + usage
    if items < _LOOKED_AT:
        return used, False
    share = sum(count.number for count in archive.counts(run)) / items
    scaled = {
        name: Usage(
            requests=round(usage.requests * share),
            cost_nano=round(usage.cost_nano * share),
            unpriced=round(usage.unpriced * share),
        )
        for name, usage in used.items()
    }
    return scaled, share > 1


def _calls_of(history: ItemHistory) -> Iterator[tuple[str, Usage]]:
    """Yield what each current step of an item used itself, without what is inside it, by node."""
    rows = {row.path: row for row in history.steps if not row.is_note}  # the newest of a path comes last
    parents = {path[:at] for path in rows for at, char in enumerate(path) if char == "/"}
    for path, row in rows.items():
        usage = usage_from(row.usage)
        if usage is not None and usage.requests and path not in parents:
            yield without_numbers(path), usage


def _node_id(name: str) -> str:
    return name.partition("/")[0]


def _with_dependents(graph: Graph, edited: Iterable[str]) -> set[str]:
    """Return these nodes and all that look up what they give."""
    found = set(edited)
    while True:
        more = {node.id for node in graph.nodes.values() if node.id not in found and found & _roots(node)}
        if not more:
            return found
        found |= more


def _roots(node: Any) -> set[str]:
    values = [node.params]
    if node.batch is not None:
        values.append(node.batch.items)
    return {reference.root for value in values for reference in value.references}
