"""One job of a graph as a program of steps: its nodes in order, with their items, rounds or child."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import GraphmillError, Permanent
from graphmill.core.json import fresh
from graphmill.core.result import Failure
from graphmill.engine.jobs.program import Failed, Finished, Program, StepRules
from graphmill.graph.node_type import Output
from graphmill.graph.run.batch import run_batch
from graphmill.graph.run.loop import run_loop
from graphmill.graph.run.outcomes import export_sequences
from graphmill.graph.run.plan import GraphPlan
from graphmill.graph.run.scope import NodeFailed, Scope, SpillState
from graphmill.graph.run.step import content_of, plain, run_step
from graphmill.graph.secrets import reveal_secrets
from graphmill.graph.template.resolver import ABSENT

if TYPE_CHECKING:
    from graphmill.graph.graph import Edge, Graph, Node


def run_job(plan: GraphPlan, item: Any) -> Program:
    """Run a graph over one item."""
    scope = Scope(plan.bind(item), "", None, set(), SpillState(), plan.root, plan.models)
    try:
        yield from _run_nodes(plan, scope)
        output: Any = _outputs(plan.graph, scope)
    except NodeFailed as failed:
        raise Failed(plan.redact(failed.failure)) from failed
    except Exception as error:  # such as a name that an output does not find
        raise Failed(NodeFailed.of(error, plan.redact).failure) from error
    # The caller may change the output: neither the graph's constants nor another job's input may change with it.
    output = fresh(output)
    if scope.spill.is_used:
        output = export_sequences(output)
    return Finished(output, dict.fromkeys(sorted(scope.flags), True))


def _run_nodes(plan: GraphPlan, scope: Scope) -> Program:
    """Run the nodes of a graph in its scope; raise NodeFailed of a node whose failure nothing handles."""
    return _run_list(plan, scope) if plan.is_list else _run_edges(plan, scope)


def _run_list(plan: GraphPlan, scope: Scope) -> Program:
    """Run nodes in listed order, as most graphs do."""
    for node in plan.nodes:
        try:
            output: Output = yield from _run_node(plan, node, scope)
        except NodeFailed as failed:
            raise _in_node(failed, node) from failed
        scope.names[node.id] = output.values
        if output.flags:
            scope.flags.update(output.flags)
        if output.action == "end" and node.type.is_end:
            skipped = [each.id for each in plan.nodes if each.id not in scope.names]
            reason = f"did not run: {node.id!r} ended the workflow"
            scope.names[ABSENT] = {node_id: f"node {node_id!r} {reason}" for node_id in skipped}
            return


def _run_edges(plan: GraphPlan, scope: Scope) -> Program:
    """Run the nodes that edges lead to, side by side where several are ready."""
    flow = _Flow(plan, scope)
    while flow.ready:
        if len(flow.ready) == 1:
            yield from flow.run(flow.ready.popleft())
        else:
            branches = _Branches(flow)
            yield branches
            if branches.failed is not None:
                raise branches.failed


def _outputs(graph: Graph, scope: Scope) -> Mapping[str, Any]:
    """Return the declared outputs; without any, those of the last listed node that ran."""
    names = scope.names
    if graph.outputs is not None:
        return {name: plain(value.resolve(names)) for name, value in graph.outputs.items()}
    return next((names[node_id] for node_id in reversed(list(graph.nodes)) if node_id in names), {})


def _run_node(plan: GraphPlan, node: Node, scope: Scope) -> Program:
    """Run a node to its end; return its Output, or raise NodeFailed."""
    path = scope.prefix + node.id
    rules = plan.rules[node.id]
    if node.id in plan.plain:  # a single step, as most nodes are: no generator around it
        return run_step(node, rules, scope, path)
    return _run_parts(plan, node, rules, scope, path)


def _run_parts(plan: GraphPlan, node: Node, rules: StepRules, scope: Scope, path: str) -> Program:
    """Run a node that is more than a step: its items, its rounds or its child."""
    try:
        if node.batch is None:
            return (yield from _run_item(plan, node, scope, path))
        run_item = partial(_run_item, plan, node)
        return (yield from run_batch(node.batch, rules, scope, path, run_item))
    except GraphmillError as error:
        raise NodeFailed.of(error, plan.redact) from error


def _run_item(plan: GraphPlan, node: Node, scope: Scope, path: str) -> Program:
    try:
        if node.loop is None:
            return (yield from _run_once(plan, node, scope, path))
        run_round = partial(_run_once, plan, node)
        return (yield from run_loop(node.loop, scope, path, run_round, content_in=partial(_content_in, node)))
    except GraphmillError as error:  # such as a name that a template does not find
        raise NodeFailed.of(error, plan.redact) from error


def _run_once(plan: GraphPlan, node: Node, scope: Scope, path: str) -> Program:
    try:
        if node.child is None:
            return (yield from run_step(node, plan.rules[node.id], scope, path))
        child = plan.children[node.id]
        names = child.bind(_child_inputs(node, scope))
        inner = Scope(names, f"{path}/", scope.meter, scope.flags, scope.spill, child.root, scope.models)
        yield from _run_nodes(child, inner)
        return Output(_outputs(child.graph, inner))
    except GraphmillError as error:
        raise NodeFailed.of(error, plan.redact) from error


def _content_in(node: Node, scope: Scope) -> Callable[[], bytes]:
    params = node.params.resolve(scope.names)
    if node.child is not None:
        params = params.get("inputs")
    return partial(content_of, node, params)


def _child_inputs(node: Node, scope: Scope) -> Mapping[str, Any]:
    inputs = node.params.resolve(scope.names).get("inputs") or {}
    if not isinstance(inputs, Mapping):
        raise Permanent(f"inputs must be a mapping of the child's inputs to values, got {type(inputs).__name__}")
    return reveal_secrets(inputs) if node.secrets else inputs


class _Flow:
    """How far one job has come along the edges of one graph."""

    def __init__(self, plan: GraphPlan, scope: Scope) -> None:
        self._plan = plan
        self._graph: Graph = plan.graph
        self._scope = scope
        self._open = plan.incoming.copy()
        self._is_reached = dict.fromkeys(self._graph.starts, True)
        self._actions: dict[str, str] = {}
        self._causes: dict[str, str] = {}
        self.ready = deque(self._graph.starts)

    def run(self, node_id: str) -> Program:
        """Run one node; those that can run next are then ready."""
        node = self._graph.nodes[node_id]
        try:
            output: Output = yield from _run_node(self._plan, node, self._scope)
        except NodeFailed as failed:
            if failed.is_question or not any(edge.action == "error" for edge in node.outgoing):
                raise _in_node(failed, node) from failed
            output = failed.output()
        self._scope.names[node.id] = output.values
        self._scope.flags.update(output.flags)
        self._leave(node, output.action)

    def _leave(self, node: Node, action: str) -> None:
        """Follow the edges of a node that ended with this action, and of all nodes that are skipped by it."""
        self._actions[node.id] = action
        open_edges = [(edge, edge.action == action) for edge in reversed(node.outgoing)]
        while open_edges:
            edge, is_taken = open_edges.pop()
            skipped = self._arrive(edge, is_taken=is_taken)
            if skipped is not None:
                open_edges.extend((each, False) for each in reversed(skipped.outgoing))

    def _arrive(self, edge: Edge, *, is_taken: bool) -> Node | None:
        """Count an edge as done; return the node it leads to if that node is skipped now."""
        target = edge.target
        self._open[target] -= 1
        self._is_reached[target] = self._is_reached.get(target, False) or is_taken
        if self._open[target]:
            return None
        if self._is_reached[target]:
            self.ready.append(target)
            return None
        return self._skip(self._graph.nodes[target])

    def _skip(self, node: Node) -> Node:
        cause = self._causes[node.id] = self._cause(node)
        self._scope.names.setdefault(ABSENT, {})[node.id] = f"node {node.id!r} was skipped: {cause}"
        return node

    def _cause(self, node: Node) -> str:
        """Name the first node whose action led past this one."""
        for edge in node.incoming:
            action = self._actions.get(edge.source)
            if action is None:
                continue
            if any(each.action == action for each in self._graph.nodes[edge.source].outgoing):
                return f"{edge.source!r} returned {action!r}, and that edge leads elsewhere"
            return f"{edge.source!r} returned {action!r}, which no edge takes"
        return self._causes[node.incoming[0].source]


class _Branches:
    """Nodes that run side by side; an unhandled failure stops them all, a question only the nodes that depend on it."""

    timeout_s: float | None = None

    def __init__(self, flow: _Flow) -> None:
        self._flow = flow
        self.is_stopped = False
        self.failed: NodeFailed | None = None

    def more(self) -> Program | None:
        return self._run(self._flow.ready.popleft()) if self._flow.ready else None

    def ended(self, program: Program, value: Any, failure: Failure | None) -> None:
        del program
        if isinstance(value, NodeFailed) and value.is_question:
            self.failed = self.failed or value
        elif isinstance(value, NodeFailed):
            self.failed, self.is_stopped = value, True
        elif failure is not None:
            self.failed, self.is_stopped = NodeFailed(failure), True

    def expire(self) -> None:
        raise AssertionError("branches have no time-out of their own")

    def _run(self, node_id: str) -> Program:
        try:
            yield from self._flow.run(node_id)
        except NodeFailed as failed:
            return failed
        return None


def _in_node(failed: NodeFailed, node: Node) -> NodeFailed:
    """Add the node's id to the message, unless an inner node's is there already."""
    message = failed.failure.message
    if "(in node " in message:
        return failed
    failure = replace(failed.failure, message=f"{message} (in node {node.id!r})")
    return NodeFailed(failure, attempts=failed.attempts, values=failed.values)
