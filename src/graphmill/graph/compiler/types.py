"""The pass of types: each node's type is found, and its params are checked as far as they are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphmill.graph.compiler.telling import tell
from graphmill.graph.compiler.vague import is_vague
from graphmill.graph.node_params import param_problems
from graphmill.graph.node_registry import find_node_type
from graphmill.graph.node_type import NodeType, Site
from graphmill.graph.problems import Problems
from graphmill.graph.spec import At, NodeSpec, WorkflowSpec

Types = Mapping[At, NodeType[Any] | None]


def find_types(spec: WorkflowSpec, problems: Problems) -> Types:
    """Give each node's type by where the node stands, None where there is none of that name."""
    types = {node.at: _type(node, problems) for node in spec.nodes}
    for node in spec.nodes:
        if (node_type := types[node.at]) is not None and not is_vague(node, spec):
            _check(node, node_type, Site(id=node.id, root=spec.document.root), problems)
    return types


def _type(node: NodeSpec, problems: Problems) -> NodeType[Any] | None:
    try:
        return find_node_type(node.type)
    except ValueError as error:
        tell(problems, (*node.at, "type"), str(error))
        return None


def _check(node: NodeSpec, node_type: NodeType[Any], site: Site, problems: Problems) -> None:
    found: list[Any] = param_problems(node_type, node.params) or _own_problems(node, node_type, site)
    for error in found:
        tell(problems, (*node.at, "params"), str(error), inside=getattr(error, "at", ()))


def _own_problems(node: NodeSpec, node_type: NodeType[Any], site: Site) -> list[ValueError]:
    """List what the type itself finds wrong with params whose shape is right."""
    try:
        node_type.check(node.params, site)
    except ValueError as error:
        return [error]
    return []
