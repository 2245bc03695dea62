"""The pass of references: whatever a template looks up is there when it is looked up, on some path at least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from graphmill.graph.compiler.checks import Types, has_vague_inputs, is_vague, listed, lost_names, nearest, tell
from graphmill.graph.compiler.children import Children
from graphmill.graph.compiler.order import ERROR, Order
from graphmill.graph.compiler.templates import NodeValues, Values, Written, texts
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.spec import NodeSpec, WorkflowSpec
from graphmill.graph.template import Reference, compile_value

BATCH_OUTPUTS = (
    "results",
    "errors",
    "outcomes",
    "count",
    "success_count",
    "error_count",
    "cancelled_count",
    "batch_metadata",
)
LOOP_OUTPUTS = ("best", "best_round", "rounds", "round_count", "stop")
_ONLY_IN = {
    "__index__": "the params of a node with a batch",
    "__round__": "the params of a node with a loop",
    "round": "`until`, `repeats` and `keep` of a loop",
}


@dataclass(frozen=True, slots=True)
class _Spot:
    """A place from which something is looked up: in which node, and which names beside those of nodes and inputs are known there."""

    node: NodeSpec | None
    written: Written
    names: tuple[str, ...] = ()
    must_use: str | None = None


def check_references(
    spec: WorkflowSpec, values: Values, known: tuple[Types, Order, Children], problems: Problems
) -> None:
    """Tell every reference that can not be found, each at every place where it stands."""
    check = _Check(spec, *known)
    for spot in _spots(spec, values):
        if spot.written.value is None:
            continue
        references = spot.written.value.references
        if spot.must_use is not None and all(reference.root != spot.must_use for reference in references):
            tell(
                problems,
                spot.written.at,
                f"a reference into ${{{spot.must_use}…}}, the round that has just ended, is wanted",
            )
            continue
        wrong = {reference: message for reference in references if (message := check.problem(reference, spot))}
        if wrong:
            _tell(wrong, spot.written, problems)


def _tell(wrong: Mapping[Reference, str], written: Written, problems: Problems) -> None:
    for at, text in texts(written.raw, written.at):
        for reference in compile_value(text).references:
            if reference in wrong:
                tell(problems, at, f"${{{reference}}}: {wrong[reference]}", offset=_offset(str(reference), text))


def _offset(shown: str, text: str) -> int:
    """Find where a reference stands in a text: at its opening, or behind ``??``."""
    opening = text.find("${" + shown)
    return max(0, text.find(shown) if opening < 0 else opening)


def _spots(spec: WorkflowSpec, values: Values) -> Iterator[_Spot]:
    for node in spec.nodes:
        if not is_vague(node, spec):
            yield from _node_spots(node, values.nodes[node.at])
    for written in (values.outputs or {}).values():
        yield _Spot(None, written)


def _node_spots(node: NodeSpec, values: NodeValues) -> Iterator[_Spot]:
    of_batch = () if node.batch is None else (node.batch.alias, "__index__")
    of_loop = () if node.loop is None else (node.loop.history, "__round__")
    yield _Spot(node, values.params, (*of_batch, *of_loop))
    if values.items is not None:
        yield _Spot(node, values.items)
    if values.loop is not None:
        yield _Spot(node, values.loop.max, of_batch)
        keep = () if values.loop.keep is None else (values.loop.keep,)
        for written in (*values.loop.until.values(), *values.loop.repeats.values(), *keep):
            yield _Spot(node, written, ("round", *of_batch), must_use="round")


class _Check:
    """Knows what there is in a workflow, and says of a reference why it can not be found."""

    def __init__(self, spec: WorkflowSpec, types: Types, order: Order, children: Children) -> None:
        self._types = types
        self._order = order
        self._children = children
        self._inputs = tuple(each.name for each in spec.inputs)
        self._is_whole = spec.is_whole
        self._lost = lost_names(spec)
        self._knows_inputs = not has_vague_inputs(spec) and self._lost is not None
        named = Counter(node.id for node in spec.nodes)
        self._vague = frozenset(node.id for node in spec.nodes if named[node.id] > 1 or is_vague(node, spec))
        self._nodes = {node.id: node for node in spec.nodes}

    def problem(self, reference: Reference, spot: _Spot) -> str | None:
        """Say what is wrong with a reference at this spot, None if nothing is."""
        root = reference.root
        if root in spot.names:
            return self._of_round(reference, spot) if root == "round" else None
        if root in self._inputs or root in (self._lost or ()):
            return None
        if root in self._nodes:
            return self._of_node(reference, self._nodes[root], spot)
        return self._out_of_place(root, spot) or (self._unknown(root, spot) if self._knows_inputs else None)

    def _of_node(self, reference: Reference, source: NodeSpec, spot: _Spot) -> str | None:
        here = None if spot.node is None else spot.node.id
        if here == source.id:
            hint = "" if source.loop is None else f"; ${{{source.loop.history}}} is the list of its rounds so far"
            return f"a node can not look up its own output{hint}"
        if not self._order.can_have_run(source.id, here):
            return f"node {source.id!r} can not have run yet: nothing leads from it to {here!r}"
        return self._of_output(reference, source, here)

    def _of_output(self, reference: Reference, source: NodeSpec, here: str | None) -> str | None:
        if len(reference.segments) == 1 or source.id in self._vague:
            return None
        output = reference.segments[1]
        names = self._outputs(source)
        if output.name == ERROR and ERROR not in (names or ()):
            return self._of_error(source, here)
        if names is not None and output.name not in names:
            return _no_output(output.name, names, f"node {source.id!r} ({self._kind(source)})")
        if output.name == "results" and output.indices and _is_shifting(source):
            return "failed items leave no result, so positions shift under `error_handling: continue`; use outcomes[N], one for each item"
        return None

    def _of_error(self, source: NodeSpec, here: str | None) -> str | None:
        if not self._is_whole or self._order.can_have_failed(source.id, here):
            return None
        where = "there is none" if here is None else f"none leads to {here!r}"
        return (
            f"the error of node {source.id!r} can be read only behind an edge from it with `action: error`, and {where}"
        )

    def _of_round(self, reference: Reference, spot: _Spot) -> str | None:
        if spot.node is None or len(reference.segments) == 1:
            return None
        names = self._plain_outputs(spot.node)
        output = reference.segments[1].name
        return (
            None if names is None or output in names else _no_output(output, names, f"a round of node {spot.node.id!r}")
        )

    def _outputs(self, node: NodeSpec) -> Iterable[str] | None:
        if node.batch is not None:
            return BATCH_OUTPUTS
        return LOOP_OUTPUTS if node.loop is not None else self._plain_outputs(node)

    def _plain_outputs(self, node: NodeSpec) -> Iterable[str] | None:
        """Name what the node's type says that it has; of a child workflow, what that declares."""
        if (child := self._children.get(node.at)) is not None:
            return child.spec.outputs
        node_type = self._types[node.at]
        return None if node_type is None else node_type.output_names(node.params)

    @staticmethod
    def _kind(node: NodeSpec) -> str:
        return (
            f"{node.type}, batch"
            if node.batch is not None
            else f"{node.type}, loop"
            if node.loop is not None
            else node.type
        )

    def _out_of_place(self, root: str, spot: _Spot) -> str | None:
        if root in _ONLY_IN:
            return f"it can be read only in {_ONLY_IN[root]}"
        if not self._knows_inputs:
            return None
        own = [node_id for node_id in self._borrowed.get(root, ()) if spot.node is not None and node_id == spot.node.id]
        owners = own or self._borrowed.get(root)
        if not owners:
            return None
        return f"{self._what[root]} of node {owners[0]!r} can be read only in the params of that node"

    def _unknown(self, root: str, spot: _Spot) -> str:
        here = None if spot.node is None else spot.node.id
        nodes = [node_id for node_id in self._nodes if node_id != here and self._order.can_have_run(node_id, here)]
        there = list(dict.fromkeys([*spot.names, *self._inputs, *nodes]))
        return f"no node or input {root!r}{nearest(root, there)}; here are {listed(there)}"

    @cached_property
    def _borrowed(self) -> Mapping[str, list[str]]:
        """The nodes that use a name for their items or their history."""
        found: dict[str, list[str]] = {}
        for node in self._nodes.values():
            for name in ([node.batch.alias] if node.batch else []) + ([node.loop.history] if node.loop else []):
                found.setdefault(name, []).append(node.id)
        return found

    @cached_property
    def _what(self) -> Mapping[str, str]:
        aliases = {node.batch.alias: "the item" for node in self._nodes.values() if node.batch}
        return {node.loop.history: "the history" for node in self._nodes.values() if node.loop} | aliases


def _is_shifting(node: NodeSpec) -> bool:
    return node.batch is not None and node.batch.error_handling == "continue"


def _no_output(name: str, names: Iterable[str], whose: str) -> str:
    known = list(names)
    return f"{whose} has no output {name!r}{nearest(name, known)}; it has {listed(known)}"
