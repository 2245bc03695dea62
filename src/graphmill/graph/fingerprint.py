"""Fingerprints of a graph, one for each part, which show what has changed since a run started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphmill.core.fingerprint import callable_name, function_fingerprint, value_fingerprint
from graphmill.core.foreign import AdaptedGraph
from graphmill.graph.graph import Graph
from graphmill.graph.models.nodes import model_marks


def graph_fingerprints(
    graph: Graph | AdaptedGraph | Callable[[Any], Any], *, version: str | None = None
) -> dict[str, str]:
    """Return the fingerprint of each part; a function is a single part.

    The parts of a workflow are its nodes, their order, inputs and outputs; those of another library's graph come from
    its adapter. ``version`` covers everything that is not visible here, such as helpers that a function calls.
    """
    if not isinstance(graph, Graph | AdaptedGraph):
        return {f"function {callable_name(graph)}": function_fingerprint(graph, version)}
    marks = model_marks(graph) if isinstance(graph, Graph) else {}
    parts = {**graph.fingerprints, **marks}
    return parts if version is None else {**parts, "version": value_fingerprint(version)}


def packages_of(graph: Any) -> list[str]:
    """Return the names of other packages that a graph's outcome depends on."""
    if isinstance(graph, Graph):
        children = (name for node in graph.nodes.values() if node.child is not None for name in packages_of(node.child))
        return sorted({name for node in graph.nodes.values() for name in node.type.packages} | set(children))
    if isinstance(graph, AdaptedGraph):
        return list(graph.packages)
    return []
