"""One node for one job: its step, its child's steps, its rounds or its items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import GraphmillError, Permanent
from graphmill.engine.program import Program
from graphmill.graph.node_type import Output
from graphmill.graph.run.batch import run_batch
from graphmill.graph.run.ends import NodeFailed
from graphmill.graph.run.flow import run_flow
from graphmill.graph.run.loop import run_loop
from graphmill.graph.run.place import Place
from graphmill.graph.run.plan import Plan
from graphmill.graph.run.step import content_of, run_step
from graphmill.graph.secrets import reveal_secrets

if TYPE_CHECKING:
    from graphmill.graph.graph import Node


def run_node(plan: Plan, node: Node, place: Place) -> Program:
    """Run a node to its end; give its Output, or raise NodeFailed."""
    path = place.path_of(node.id)
    try:
        if node.batch is not None:
            return (
                yield from run_batch(
                    node.batch, plan.rules[node.id], place, path, lambda inner, at: _run_item(plan, node, inner, at)
                )
            )
        return (yield from _run_item(plan, node, place, path))
    except GraphmillError as error:
        raise NodeFailed.of(error, plan.redact) from error


def _run_item(plan: Plan, node: Node, place: Place, path: str) -> Program:
    try:
        if node.loop is not None:
            run_round = partial(_run_once, plan, node)
            return (yield from run_loop(node.loop, place, path, run_round, content_in=partial(_content_in, node)))
        return (yield from _run_once(plan, node, place, path))
    except GraphmillError as error:  # such as a name that is missing in a template
        raise NodeFailed.of(error, plan.redact) from error


def _run_once(plan: Plan, node: Node, place: Place, path: str) -> Program:
    try:
        if node.child is None:
            return (yield from run_step(node, plan.rules[node.id], place, path))
        child = plan.children[node.id]
        inner = Place(
            child.bind(_inputs(node, place)), f"{path}/", place.meter, place.flags, place.room, child.root, place.models
        )
        return Output((yield from run_flow(child, inner, run_node)))
    except GraphmillError as error:
        raise NodeFailed.of(error, plan.redact) from error


def _content_in(node: Node, place: Place) -> Callable[[], bytes]:
    params = node.params.resolve(place.scope)
    return partial(content_of, node, params if node.child is None else params.get("inputs"))


def _inputs(node: Node, place: Place) -> Mapping[str, Any]:
    inputs = node.params.resolve(place.scope).get("inputs") or {}
    if not isinstance(inputs, Mapping):
        raise Permanent(f"inputs is a mapping from the child's inputs to values, not {type(inputs).__name__}")
    return reveal_secrets(inputs) if node.secrets else inputs
