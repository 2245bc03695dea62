"""Fingerprints of what a node means: not of its layout, its limits or its retries."""

from __future__ import annotations

from typing import Any

from graphmill.core.fingerprint import value_fingerprint
from graphmill.graph.compiler.children import WORKFLOW
from graphmill.graph.graph import Graph
from graphmill.graph.node_type import NodeType
from graphmill.graph.spec import BatchSpec, LoopSpec, NodeSpec


def node_fingerprint(node: NodeSpec, node_type: NodeType[Any], child: Graph | None) -> str:
    """Hash type, params, code, batch, loop and child; a child counts by what it does, not by where it stands."""
    left_out = node_type.incidental if child is None else {WORKFLOW}
    params = {key: entry for key, entry in node.params.items() if key not in left_out}
    code = node_type.fingerprint(node.params)
    parts = None if child is None else child.fingerprints
    return value_fingerprint([node_type.name, params, code, _batch(node.batch), _loop(node.loop), parts])


def _batch(batch: BatchSpec | None) -> Any:
    return None if batch is None else [batch.items, batch.alias, batch.error_handling, batch.is_ordered]


def _loop(loop: LoopSpec | None) -> Any:
    if loop is None:
        return None
    # The first reason that holds is the one that stops: the order of `until` and `repeats` means something.
    until, repeats = list(loop.until.items()), list(loop.repeats.items())
    return [loop.max, until, repeats, loop.similarity, loop.keep, loop.history, loop.budget_usd, loop.on_error]
