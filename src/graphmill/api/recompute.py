"""What a resume after an edit does again, and what that will cost: said before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from graphmill.core.fingerprint import changed
from graphmill.core.money import money_text
from graphmill.core.usage import NO_USAGE, RunUsage, Usage
from graphmill.graph.fingerprint import graph_fingerprints
from graphmill.graph.graph import Graph
from graphmill.journal.records import RunRecord


class Recompute(NamedTuple):
    """The usage of the calls that are reused and of those that are made again, by node, as far as earlier runs tell.

    ``is_upper_bound`` says that some of the latter may be reused: the part that changed has several nodes inside.
    """

    reused: Mapping[str, Usage]
    again: Mapping[str, Usage]
    is_upper_bound: bool

    def __str__(self) -> str:
        parts = [f"{usage.requests:,} {name} calls reused" for name, usage in self.reused.items()]
        most = "up to " if self.is_upper_bound else ""
        parts += [f"{most}{usage.requests:,} {name} calls again" for name, usage in self.again.items()]
        total = sum(self.again.values(), NO_USAGE)
        if total.cost_nano:
            parts.append(f"about {money_text(total.cost_nano)}")
        if total.unpriced:
            parts.append(f"{total.unpriced:,} of them had no price")
        return ", ".join(parts)


def plan_recompute(run: RunRecord, graph: Callable[[Any], Any]) -> Recompute | None:
    """Return what redoing the results of a changed workflow takes; None if unchanged, or without model calls."""
    if not isinstance(graph, Graph) or not isinstance(run.usage, RunUsage) or not run.usage.nodes:
        return None
    before = run.manifest.get("fingerprints", {})
    parts = set(changed(before, graph_fingerprints(graph, version=run.options.get("version"))))
    edited = {node_id for node_id in graph.nodes if any(part.startswith(f"node {node_id!r} ") for part in parts)}
    if not edited:
        return None
    redone = _with_dependents(graph, edited)
    place = {node_id: number for number, node_id in enumerate(graph.nodes)}
    names = sorted(run.usage.nodes, key=lambda name: place.get(_node_id(name), len(place)))
    used = {name: run.usage.nodes[name] for name in names if run.usage.nodes[name].requests}
    again = {name: usage for name, usage in used.items() if _node_id(name) in redone}
    reused = {name: usage for name, usage in used.items() if name not in again}
    has_parts = any(graph.nodes[node_id].child is not None for node_id in redone)
    return Recompute(reused, again, has_parts) if again else None


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
