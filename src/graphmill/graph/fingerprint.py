"""The fingerprints of a graph, one for each part, which tell what has changed since a run began."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphmill.core.callable_name import callable_name
from graphmill.core.changes import ORDER
from graphmill.core.fingerprint import function_fingerprint, value_fingerprint
from graphmill.graph.graph import Graph, Node
from graphmill.graph.node import code_fingerprint


def graph_fingerprints(graph: Graph | Callable[[Any], Any], *, version: str | None = None) -> dict[str, str]:
    """Give the fingerprint of each part: of a workflow its nodes, their order, inputs and outputs; a function has one part.

    ``version`` is the author's own word for all that can not be seen here, such as the helpers that a function calls.
    """
    if not isinstance(graph, Graph):
        return {f"function {callable_name(graph)}": function_fingerprint(graph, version)}
    parts = {f"node {node.id!r}": _node(node) for node in graph.nodes}
    parts[ORDER] = value_fingerprint([node.id for node in graph.nodes])
    parts["inputs"] = value_fingerprint([graph.inputs, sorted(graph.required), graph.given])
    parts["outputs"] = value_fingerprint(graph.outputs)
    return parts if version is None else {**parts, "version": value_fingerprint(version)}


def _node(node: Node) -> str:
    return value_fingerprint([node.type, node.params, code_fingerprint(node.type, node.params)])
