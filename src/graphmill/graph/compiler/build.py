"""The last pass: all that was found is put together as a graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from graphmill.core.fingerprint import value_fingerprint
from graphmill.graph.compiler.children import Children
from graphmill.graph.compiler.fingerprints import node_fingerprint
from graphmill.graph.compiler.inputs import make_inputs
from graphmill.graph.compiler.order import Order
from graphmill.graph.compiler.rules import batch_rule, loop_rule, retry_rule, timeout_s
from graphmill.graph.compiler.templates import NodeValues, Values
from graphmill.graph.compiler.types import Types
from graphmill.graph.document import Document
from graphmill.graph.graph import Edge, Graph, Node
from graphmill.graph.node_type import NodeType
from graphmill.graph.spec import NodeSpec, WorkflowSpec
from graphmill.graph.template import Value


def build_graph(spec: WorkflowSpec, values: Values, known: tuple[Types, Order, Children]) -> Graph:
    """Make the graph of a workflow in which nothing is wrong."""
    types, order, children = known
    incoming, outgoing = _by_end(order.edges, "target"), _by_end(order.edges, "source")
    nodes = {
        node.id: _node(
            node,
            values.nodes[node.at],
            type=cast("NodeType[Any]", types[node.at]),
            child=children[node.at].graph if node.at in children else None,
            edges=(incoming.get(node.id, ()), outgoing.get(node.id, ())),
        )
        for node in spec.nodes
    }
    outputs = (
        None
        if values.outputs is None
        else {name: cast("Value", written.value) for name, written in values.outputs.items()}
    )
    return Graph(
        name=spec.name,
        path=_path(spec.document),
        inputs=MappingProxyType(dict(make_inputs(spec))),
        nodes=MappingProxyType(nodes),
        starts=order.starts,
        outputs=None if outputs is None else MappingProxyType(outputs),
        outputs_fingerprint=value_fingerprint(None if spec.outputs is None else dict(spec.outputs)),
    )


def _node(
    spec: NodeSpec,
    values: NodeValues,
    *,
    type: NodeType[Any],  # noqa: A002  the word of the language
    child: Graph | None,
    edges: tuple[tuple[Edge, ...], tuple[Edge, ...]],
) -> Node:
    return Node(
        id=spec.id,
        type=type,
        params=cast("Value", values.params.value),
        raw_params=MappingProxyType(dict(spec.params)),
        retry=retry_rule(spec),
        timeout_s=timeout_s(spec),
        effect=cast("Any", spec.effect or type.effect_of(spec.params)),
        on_ambiguous=cast("Any", spec.on_ambiguous),
        batch=batch_rule(spec, values),
        loop=loop_rule(spec, values.loop),
        child=child,
        incoming=edges[0],
        outgoing=edges[1],
        fingerprint=node_fingerprint(spec, type, child),
        secrets=values.secrets,
    )


def _by_end(edges: tuple[Edge, ...], end: str) -> Mapping[str, tuple[Edge, ...]]:
    found: dict[str, list[Edge]] = {}
    for edge in edges:
        found.setdefault(getattr(edge, end), []).append(edge)
    return {node_id: tuple(each) for node_id, each in found.items()}


def _path(document: Document) -> str | None:
    return None if document.root is None else str(document.root / Path(document.path).name)
