"""One job of a graph as a program of steps: its nodes in their order, and each node with its items, rounds or child."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import GraphmillError, Permanent
from graphmill.core.json import fresh
from graphmill.core.result import Failure
from graphmill.engine.jobs.program import Failed, Finished, Program
from graphmill.graph.node_type import Output
from graphmill.graph.run.batch import run_batch
from graphmill.graph.run.loop import run_loop
from graphmill.graph.run.outcomes import outward
from graphmill.graph.run.plan import Plan
from graphmill.graph.run.scope import NodeFailed, Place, Room
from graphmill.graph.run.step import content_of, plain, run_step
from graphmill.graph.secrets import reveal_secrets
from graphmill.graph.template.lookup import ABSENT

if TYPE_CHECKING:
    from graphmill.graph.graph import Edge, Graph, Node

RunNode = Callable[[Plan, "Node", Place], Program]


def run_job(plan: Plan, item: Any) -> Program:
    """Run a graph over one item."""
    place = Place(plan.bind(item), "", None, set(), Room(), plan.root, plan.models)
    try:
        output = yield from run_flow(plan, place, run_node)
    except NodeFailed as failed:
        raise Failed(plan.redact(failed.failure)) from failed
    except Exception as error:  # such as a name that is missing in an output
        raise Failed(NodeFailed.of(error, plan.redact).failure) from error
    # Whoever takes it may change it: neither the graph's constants nor another job's input are to change with it.
    given, flags = fresh(output), dict.fromkeys(sorted(place.flags), True) if place.flags else {}
    return Finished(outward(given) if place.room.is_used else given, flags)


def run_flow(plan: Plan, place: Place, run_node: RunNode) -> Program:
    """Run a graph in a place of its own; give its outputs, or raise NodeFailed of the node whose failure nothing handles."""
    return _run_list(plan, place, run_node) if plan.is_list else _run_edges(plan, place, run_node)


def _run_edges(plan: Plan, place: Place, run_node: RunNode) -> Program:
    flow = _Flow(plan, place, run_node)
    while flow.ready:
        if len(flow.ready) == 1:
            yield from flow.run(flow.ready.popleft())
        else:
            branches = _Branches(flow)
            yield branches
            if branches.failed is not None:
                raise branches.failed
    return _outputs(plan.graph, place)


def _run_list(plan: Plan, place: Place, run_node: RunNode) -> Program:
    """Run nodes in listed order, as most graphs want it."""
    scope = place.scope
    for node in plan.nodes:
        try:
            if node.id in plan.plain:
                output: Output = yield from run_step(node, plan.rules[node.id], place, place.prefix + node.id)
            else:
                output = yield from run_node(plan, node, place)
        except NodeFailed as failed:
            raise _placed(failed, node) from failed
        scope[node.id] = output.values
        if output.flags:
            place.flags.update(output.flags)
        if output.action == "end" and node.type.is_end:
            left = (each.id for each in plan.nodes if each.id not in scope)
            scope[ABSENT] = {node_id: f"node {node_id!r} did not run: {node.id!r} has ended it" for node_id in left}
            break
    return _outputs(plan.graph, place)


def _outputs(graph: Graph, place: Place) -> dict[str, Any]:
    """Give the declared outputs; without any, those of the last node in the list that has run."""
    scope, declared = place.scope, graph.outputs
    if declared is not None:
        return {name: plain(value.resolve(scope)) for name, value in declared.items()}
    return next((scope[node_id] for node_id in reversed(list(graph.nodes)) if node_id in scope), {})


class _Flow:
    """Where one job stands among the nodes of one graph."""

    def __init__(self, plan: Plan, place: Place, run_node: RunNode) -> None:
        self._plan = plan
        self._graph: Graph = plan.graph
        self._place = place
        self._run_node = run_node
        self._open = plan.incoming.copy()
        self._is_reached = dict.fromkeys(self._graph.starts, True)
        self._actions: dict[str, str] = {}
        self._causes: dict[str, str] = {}
        self.ready = deque(self._graph.starts)

    def run(self, node_id: str) -> Program:
        """Run one node; those that can run then are ready."""
        node = self._graph.nodes[node_id]
        try:
            if node_id in self._plan.plain:
                output: Output = yield from run_step(
                    node, self._plan.rules[node_id], self._place, self._place.prefix + node_id
                )
            else:
                output = yield from self._run_node(self._plan, node, self._place)
        except NodeFailed as failed:
            if failed.is_question or not any(edge.action == "error" for edge in node.outgoing):
                raise _placed(failed, node) from failed
            output = failed.output()
        self._place.scope[node.id] = output.values
        self._place.flags.update(output.flags)
        self._leave(node, output.action)

    def _leave(self, node: Node, action: str) -> None:
        """Go along the edges of a node that has ended with this action, and of all that are skipped then."""
        self._actions[node.id] = action
        open_edges = [(edge, edge.action == action) for edge in reversed(node.outgoing)]
        while open_edges:
            edge, is_fired = open_edges.pop()
            if (skipped := self._arrive(edge, is_fired=is_fired)) is not None:
                open_edges.extend((each, False) for each in reversed(skipped.outgoing))

    def _arrive(self, edge: Edge, *, is_fired: bool) -> Node | None:
        """Count an edge that will not fire any more; give the node that it leads to if that is skipped now."""
        target = edge.target
        self._open[target] -= 1
        self._is_reached[target] = self._is_reached.get(target, False) or is_fired
        if self._open[target]:
            return None
        if self._is_reached[target]:
            self.ready.append(target)
            return None
        return self._skip(self._graph.nodes[target])

    def _skip(self, node: Node) -> Node:
        cause = self._causes[node.id] = self._cause(node)
        self._place.scope.setdefault(ABSENT, {})[node.id] = f"node {node.id!r} was skipped: {cause}"
        return node

    def _cause(self, node: Node) -> str:
        """Say which node's action has led past this one, by the first way that could have led to it."""
        for edge in node.incoming:
            if (action := self._actions.get(edge.source)) is not None:
                is_taken = any(each.action == action for each in self._graph.nodes[edge.source].outgoing)
                ending = "and that edge leads elsewhere" if is_taken else "which no edge takes"
                return f"{edge.source!r} returned {action!r}, {ending}"
        return self._causes[node.incoming[0].source]


class _Branches:
    """Nodes that run side by side; the first failure that nothing handles ends them all, a question only what lies behind it."""

    timeout_s: float | None = None

    def __init__(self, flow: _Flow) -> None:
        self._flow = flow
        self.is_stopped = False
        self.failed: NodeFailed | None = None

    def more(self) -> Program | None:
        return self._kept(self._flow.ready.popleft()) if self._flow.ready else None

    def ended(self, program: Program, value: Any, failure: Failure | None) -> None:
        del program
        if isinstance(value, NodeFailed) and value.is_question:
            self.failed = self.failed or value
        elif isinstance(value, NodeFailed):
            self.failed, self.is_stopped = value, True
        elif failure is not None:
            self.failed, self.is_stopped = NodeFailed(failure), True

    def expire(self) -> None:
        raise AssertionError("branches have no time of their own")

    def _kept(self, node_id: str) -> Program:
        try:
            yield from self._flow.run(node_id)
        except NodeFailed as failed:
            return failed
        return None


def _placed(failed: NodeFailed, node: Node) -> NodeFailed:
    """Say in which node it was, once."""
    place = f"(in node {node.id!r})"
    message = failed.failure.message
    if "(in node " in message:
        return failed
    return NodeFailed(
        replace(failed.failure, message=f"{message} {place}"), attempts=failed.attempts, values=failed.values
    )


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
