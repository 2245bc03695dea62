"""The pass of types: each node's type is found, and its params are checked as far as they are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphmill.graph.node_registry import find_node_type
from graphmill.graph.node_type import NodeType, ParamError, Site
from graphmill.graph.problems import Problems
from graphmill.graph.spec import NodeSpec, WorkflowSpec

Types = Mapping[str, NodeType[Any] | None]


def find_types(spec: WorkflowSpec, problems: Problems) -> Types:
    """Give each node's type, None where there is none of that name."""
    types = {node.id: _type(node, problems) for node in spec.nodes}
    for node in spec.nodes:
        if (node_type := types[node.id]) is not None:
            _check(node, node_type, Site(id=node.id, root=spec.document.root), problems)
    return types


def _type(node: NodeSpec, problems: Problems) -> NodeType[Any] | None:
    try:
        return find_node_type(node.type)
    except ValueError as error:
        problems.add((*node.at, "type"), str(error))
        return None


def _check(node: NodeSpec, node_type: NodeType[Any], site: Site, problems: Problems) -> None:
    try:
        node_type.check(node.params, site)
    except ParamError as error:
        problems.add((*node.at, "params", *error.at), str(error))
    except ValueError as error:
        problems.add((*node.at, "params"), str(error))
