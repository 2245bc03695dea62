"""The fingerprints of a graph, one for each part, which tell what has changed since a run began."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphmill.core.callable_name import callable_name
from graphmill.core.fingerprint import function_fingerprint, value_fingerprint
from graphmill.graph.graph import Graph
from graphmill.graph.models.nodes import model_marks


def graph_fingerprints(graph: Graph | Callable[[Any], Any], *, version: str | None = None) -> dict[str, str]:
    """Give the fingerprint of each part: of a workflow its nodes, their order, inputs and outputs; a function has one part.

    ``version`` is the author's own word for all that can not be seen here, such as the helpers that a function calls.
    """
    if not isinstance(graph, Graph):
        return {f"function {callable_name(graph)}": function_fingerprint(graph, version)}
    parts = {**graph.fingerprints, **model_marks(graph)}
    return parts if version is None else {**parts, "version": value_fingerprint(version)}
