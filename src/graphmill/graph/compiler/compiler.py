"""The compiler: a list of passes that make a graph of a workflow, or report everything wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from graphmill.core.errors import InternalError
from graphmill.core.fingerprint import value_fingerprint
from graphmill.graph.compiler.checks import Types, check_names, find_types, make_inputs
from graphmill.graph.compiler.children import (
    WORKFLOW,
    Children,
    ChildWorkflow,
    Library,
    check_results,
    compile_children,
)
from graphmill.graph.compiler.order import Order, check_actions, find_order
from graphmill.graph.compiler.references import check_references
from graphmill.graph.compiler.templates import LoopValues, NodeValues, Values, Written, compile_values, note_braces
from graphmill.graph.graph import BatchRule, Edge, Graph, LoopRule, Node, RetryRule
from graphmill.graph.language.document import Document
from graphmill.graph.language.places import At
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.reader import read_spec
from graphmill.graph.language.spec import BatchSpec, LoopSpec, NodeSpec, WorkflowSpec
from graphmill.graph.node_type import NodeType
from graphmill.graph.template import CompiledValue, entries_of


def compile_workflow(document: Document) -> Graph:
    """Compile a workflow with all its children; WorkflowError lists the problems of all of them."""
    library = Library(_compile)
    compiled = library.document(document)
    problems = library.gathered()
    problems.raise_if_any()
    if compiled is None or compiled.graph is None:
        raise InternalError(f"{document.path} gave neither a graph nor a problem")
    return replace(compiled.graph, notes=tuple(problems.notes))


def _compile(document: Document, at: At, problems: Problems, library: Library) -> ChildWorkflow | None:
    spec = read_spec(document, at, problems=problems)
    if spec is None:
        return None
    check_names(spec, problems)
    types = find_types(spec, problems)
    children = compile_children(spec, types, library, problems)
    check_results(spec, types, children, problems)
    values = compile_values(spec, types, problems)
    note_braces(spec, types, problems)
    order = find_order(spec, problems)
    check_actions(spec, types, problems)
    known = (types, order, children)
    check_references(spec, values, known, problems)
    if not spec.is_whole:
        return None
    return ChildWorkflow(spec, None if library.has_problems else build_graph(spec, values, known))


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
        else {name: cast("CompiledValue", written.value) for name, written in values.outputs.items()}
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
        params=cast("CompiledValue", values.params.value),
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


def retry_rule(node: NodeSpec) -> RetryRule:
    """Give the batch's rule, else the node's, else None for the policy's."""
    retry, batch = node.retry, node.batch
    attempts = retry.attempts if batch is None or batch.max_retries is None else batch.max_retries
    wait_s = retry.wait_s if batch is None or batch.retry_wait_s is None else batch.retry_wait_s
    return RetryRule(attempts=attempts, wait_s=wait_s, backoff=retry.backoff, cap_s=retry.cap_s)


def timeout_s(node: NodeSpec) -> float | None:
    """Give the limit of an attempt likewise."""
    return node.timeout_s if node.batch is None or node.batch.timeout_s is None else node.batch.timeout_s


def batch_rule(node: NodeSpec, values: NodeValues) -> BatchRule | None:
    """Give how the node's items are run."""
    batch = node.batch
    if batch is None or values.items is None:
        return None
    return BatchRule(
        items=_value(values.items),
        entries=entries_of(_value(values.items)),
        alias=batch.alias,
        error_handling=cast("Any", batch.error_handling),
        is_parallel=batch.is_parallel,
        max_concurrent=batch.max_concurrent,
        max_failures=batch.max_failures,
        is_ordered=batch.is_ordered,
    )


def loop_rule(node: NodeSpec, values: LoopValues | None) -> LoopRule | None:
    """Give how the node's rounds are run."""
    loop = node.loop
    if loop is None or values is None:
        return None
    return LoopRule(
        max=loop.max if isinstance(loop.max, int) else _value(values.max),
        until=_values(values.until),
        repeats=_values(values.repeats),
        similarity=loop.similarity,
        keep=None if loop.keep is None or values.keep is None else (cast("Any", loop.keep[0]), _value(values.keep)),
        history=loop.history,
        timeout_s=loop.timeout_s,
        budget_usd=loop.budget_usd,
        on_error=cast("Any", loop.on_error),
    )


def _values(written: Mapping[str, Written]) -> Mapping[str, CompiledValue]:
    return MappingProxyType({name: _value(each) for name, each in written.items()})


def _value(written: Written) -> CompiledValue:
    return cast("CompiledValue", written.value)


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
