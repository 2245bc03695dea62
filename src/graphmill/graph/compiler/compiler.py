"""The compiler: a list of passes that make a graph of a workflow, or report everything wrong with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
from graphmill.graph.compiler.references import check_first_rounds, check_references
from graphmill.graph.compiler.shapes import Shapes
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
    return replace(compiled.graph, notes=tuple(problems.notes), texts=MappingProxyType(library.texts))


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
    shapes = Shapes(spec, types, children)
    check_references(spec, values, (types, order, shapes), problems)
    check_first_rounds(spec, problems)
    if not spec.is_whole:
        return None
    outputs = shapes.of_outputs(spec.outputs)
    if library.has_problems:
        return ChildWorkflow(spec, None, outputs)
    return ChildWorkflow(spec, build_graph(spec, values, (types, order, children)), outputs)


def build_graph(spec: WorkflowSpec, values: Values, known: tuple[Types, Order, Children]) -> Graph:
    """Build the graph of a workflow without problems."""
    types, order, children = known
    incoming, outgoing = _by_end(order.edges, "target"), _by_end(order.edges, "source")
    nodes: dict[str, Node] = {}
    for node in spec.nodes:
        child = children.get(node.at)
        nodes[node.id] = _node(
            node,
            values.nodes[node.at],
            type=cast("NodeType[Any]", types[node.at]),
            child=child and child.graph,
            edges=(incoming.get(node.id, ()), outgoing.get(node.id, ())),
        )
    outputs = outputs_data = None
    if values.outputs is not None and spec.outputs is not None:
        outputs = _values(values.outputs)
        outputs_data = dict(spec.outputs)
    return Graph(
        name=spec.name,
        path=_path(spec.document),
        inputs=MappingProxyType(dict(make_inputs(spec))),
        nodes=MappingProxyType(nodes),
        starts=order.starts,
        outputs=outputs,
        outputs_fingerprint=value_fingerprint(outputs_data),
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
    if document.root is None:
        return None
    return str(document.root / Path(document.path).name)


def retry_rule(node: NodeSpec) -> RetryRule:
    """Return the batch's values, else the node's, else None for the policy's."""
    retry, batch = node.retry, node.batch
    attempts, wait_s = retry.attempts, retry.wait_s
    if batch is not None and batch.max_retries is not None:
        attempts = batch.max_retries
    if batch is not None and batch.retry_wait_s is not None:
        wait_s = batch.retry_wait_s
    return RetryRule(attempts=attempts, wait_s=wait_s, backoff=retry.backoff, cap_s=retry.cap_s)


def timeout_s(node: NodeSpec) -> float | None:
    """Return the time limit of an attempt: the batch's, else the node's."""
    if node.batch is not None and node.batch.timeout_s is not None:
        return node.batch.timeout_s
    return node.timeout_s


def batch_rule(node: NodeSpec, values: NodeValues) -> BatchRule | None:
    """Return how the node's items run."""
    batch = node.batch
    if batch is None or values.items is None:
        return None
    return BatchRule(
        items=_value(values.items),
        entries=entries_of(_value(values.items)),
        is_counted=batch.times is not None,
        alias=batch.alias,
        error_handling=cast("Any", batch.error_handling),
        is_parallel=batch.is_parallel,
        max_concurrent=batch.max_concurrent,
        max_failures=batch.max_failures,
        is_ordered=batch.is_ordered,
    )


def loop_rule(node: NodeSpec, values: LoopValues | None) -> LoopRule | None:
    """Return how the node's rounds run."""
    loop = node.loop
    if loop is None or values is None:
        return None
    keep: Any = None
    if loop.keep is not None:
        keep = loop.keep[0], tuple(map(_value, values.keep))
    return LoopRule(
        max=_value(values.max),
        until=_values(values.until),
        repeats=_values(values.repeats),
        similarity=loop.similarity,
        keep=keep,
        history=loop.history,
        timeout_s=_value(values.timeout_s),
        budget_usd=_value(values.budget_usd),
        on_error=cast("Any", loop.on_error),
    )


def _values(written: Mapping[str, Written]) -> Mapping[str, CompiledValue]:
    return MappingProxyType({name: _value(each) for name, each in written.items()})


def _value(written: Written) -> CompiledValue:
    return cast("CompiledValue", written.value)


def node_fingerprint(node: NodeSpec, node_type: NodeType[Any], child: Graph | None) -> str:
    """Hash type, params, code, batch, loop and child; a child counts by its content, not by its place."""
    left_out: Collection[str] = node_type.incidental
    parts = None
    if child is not None:
        left_out, parts = (WORKFLOW,), child.fingerprints
    params = {key: entry for key, entry in node.params.items() if key not in left_out}
    code = node_type.fingerprint(node.params)
    return value_fingerprint([node_type.name, params, code, _batch(node.batch), _loop(node.loop), parts])


def _batch(batch: BatchSpec | None) -> Any:
    if batch is None:
        return None
    return [batch.items, batch.times, batch.alias, batch.error_handling, batch.is_ordered]


def _loop(loop: LoopSpec | None) -> Any:
    if loop is None:
        return None
    # The first reason that holds is the one that stops: the order of `until` and `repeats` means something.
    until, repeats = list(loop.until.items()), list(loop.repeats.items())
    return [loop.max, until, repeats, loop.similarity, loop.keep, loop.history, loop.budget_usd, loop.on_error]
