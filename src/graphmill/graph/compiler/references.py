"""The pass of references: what a template looks up must exist when it is looked up, on some path at least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from graphmill.graph.compiler.checks import Types, has_vague_inputs, is_vague, listed, lost_names, nearest, tell
from graphmill.graph.compiler.order import ERROR, Order
from graphmill.graph.compiler.shapes import Misnamed, Shape, Shapes, follow
from graphmill.graph.compiler.templates import NodeValues, Values, Written, texts
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.spec import NodeSpec, WorkflowSpec
from graphmill.graph.template import Placeholder, Reference, TemplateError, compile_value, parse

_ONLY_IN = {
    "__index__": "the params of a node with a batch",
    "__round__": "the params of a node with a loop",
    "round": "`until`, `repeats` and `keep` of a loop",
}


@dataclass(frozen=True, slots=True)
class _Spot:
    """A value with references: its node, and the names that are known there beside nodes and inputs."""

    node: NodeSpec | None
    written: Written
    names: tuple[str, ...] = ()
    must_use: str | None = None

    @property
    def node_id(self) -> str | None:
        return None if self.node is None else self.node.id


def check_references(
    spec: WorkflowSpec, values: Values, known: tuple[Types, Order, Shapes], problems: Problems
) -> None:
    """Report every reference that cannot be found, at each of its places."""
    check = _Check(spec, *known)
    for spot in _spots(spec, values):
        if spot.written.value is None:
            continue
        references = spot.written.value.references
        if spot.must_use is not None and all(reference.root != spot.must_use for reference in references):
            message = f"must refer to the round that has just ended, as in ${{{spot.must_use}.field}}"
            tell(problems, spot.written.at, message)
            continue
        found = {reference: check.problem(reference, spot) for reference in references}
        wrong = {reference: problem for reference, problem in found.items() if problem is not None}
        if wrong:
            _tell(wrong, spot.written, problems)


def _tell(wrong: Mapping[Reference, str], written: Written, problems: Problems) -> None:
    for at, text in texts(written.raw, written.at):
        for reference in compile_value(text).references:
            if reference in wrong:
                tell(problems, at, f"${{{reference}}}: {wrong[reference]}", offset=_offset(str(reference), text))


def _offset(shown: str, text: str) -> int:
    """Find a reference in a text: after ``${``, or after ``??``."""
    opening = text.find("${" + shown)
    if opening >= 0:
        return opening
    return max(0, text.find(shown))


def _spots(spec: WorkflowSpec, values: Values) -> Iterator[_Spot]:
    for node in spec.nodes:
        if not is_vague(node, spec):
            yield from _node_spots(node, values.nodes[node.at])
    for written in (values.outputs or {}).values():
        yield _Spot(None, written)


def _node_spots(node: NodeSpec, values: NodeValues) -> Iterator[_Spot]:
    of_batch: tuple[str, ...] = ()
    of_loop: tuple[str, ...] = ()
    if node.batch is not None:
        of_batch = (node.batch.alias, "__index__")
    if node.loop is not None:
        of_loop = (node.loop.history, "__round__")
    yield _Spot(node, values.params, (*of_batch, *of_loop))
    if values.items is not None:
        yield _Spot(node, values.items)
    if values.loop is not None:
        for written in (values.loop.max, values.loop.timeout_s, values.loop.budget_usd):
            yield _Spot(node, written, of_batch)
        for written in (*values.loop.until.values(), *values.loop.repeats.values(), *values.loop.keep):
            yield _Spot(node, written, ("round", *of_batch), must_use="round")


class _Check:
    """Knows the names of a workflow, and says why a reference cannot be found."""

    def __init__(self, spec: WorkflowSpec, types: Types, order: Order, shapes: Shapes) -> None:
        self._types = types
        self._order = order
        self._shapes = shapes
        self._inputs = tuple(each.name for each in spec.inputs)
        self._is_whole = spec.is_whole
        self._lost = lost_names(spec)
        self._knows_inputs = not has_vague_inputs(spec) and self._lost is not None
        named = Counter(node.id for node in spec.nodes)
        self._vague = frozenset(node.id for node in spec.nodes if named[node.id] > 1 or is_vague(node, spec))
        self._nodes = {node.id: node for node in spec.nodes}

    def problem(self, reference: Reference, spot: _Spot) -> str | None:
        """Return what is wrong with a reference here; None if nothing is."""
        root = reference.root
        if root in spot.names:
            return self._of_round(reference, spot)
        if root in self._inputs or root in (self._lost or ()):
            return None
        if root in self._nodes:
            return self._of_node(reference, self._nodes[root], spot)
        misplaced = self._out_of_place(root, spot)
        if misplaced is None and self._knows_inputs:
            return self._unknown(root, spot)
        return misplaced

    def _of_node(self, reference: Reference, source: NodeSpec, spot: _Spot) -> str | None:
        here = spot.node_id
        if here == source.id:
            hint = ""
            if source.loop is not None:
                hint = f"; use ${{{source.loop.history}}}, the list of its rounds so far"
            return f"a node cannot look up its own output{hint}"
        if not self._order.can_have_run(source.id, here):
            return f"node {source.id!r} has not run yet: no edge leads from it to {here!r}"
        return self._of_output(reference, source, here)

    def _of_output(self, reference: Reference, source: NodeSpec, here: str | None) -> str | None:
        if len(reference.segments) == 1 or source.id in self._vague:
            return None
        output = reference.segments[1]
        shape = self._shapes.of_node(source)
        if output.name == ERROR and ERROR not in (shape.fields or ()):
            return self._of_error(source, here)
        found = follow(shape, reference.segments)
        if isinstance(found, Misnamed):
            return _no_field(found, f"node {source.id!r} ({self._kind(source)})")
        if output.name == "results" and output.indices and _is_shifting(source):
            return (
                "positions in results shift when items fail (error_handling: continue); use outcomes[N], one for each "
                "item"
            )
        return None

    def _of_error(self, source: NodeSpec, here: str | None) -> str | None:
        if not self._is_whole or self._order.can_have_failed(source.id, here):
            return None
        missing = "there is no such edge" if here is None else f"no such edge leads to {here!r}"
        return f"the error of node {source.id!r} can only be read after an edge from it with `action: error`; {missing}"

    def _of_round(self, reference: Reference, spot: _Spot) -> str | None:
        """Check what is looked up in the round that has just ended, or in those before."""
        node = spot.node
        if node is None or node.loop is None or reference.root not in ("round", node.loop.history):
            return None
        shape = self._shapes.of_round(node)
        found = follow(shape if reference.root == "round" else Shape(entries=shape), reference.segments)
        return _no_field(found, f"a round of node {node.id!r}") if isinstance(found, Misnamed) else None

    @staticmethod
    def _kind(node: NodeSpec) -> str:
        if node.batch is not None:
            return f"{node.type}, batch"
        if node.loop is not None:
            return f"{node.type}, loop"
        return node.type

    def _out_of_place(self, root: str, spot: _Spot) -> str | None:
        if root in _ONLY_IN:
            return f"can only be used in {_ONLY_IN[root]}"
        if not self._knows_inputs:
            return None
        owners = self._borrowed.get(root)
        if not owners:
            return None
        owner = spot.node_id if spot.node_id in owners else owners[0]
        return f"{self._what[root]} of node {owner!r} can only be used in the params of that node"

    def _unknown(self, root: str, spot: _Spot) -> str:
        here = spot.node_id
        nodes = [node_id for node_id in self._nodes if node_id != here and self._order.can_have_run(node_id, here)]
        there = list(dict.fromkeys([*spot.names, *self._inputs, *nodes]))
        return f"no node or input {root!r}{nearest(root, there)}; available here: {listed(there)}"

    @cached_property
    def _borrowed(self) -> Mapping[str, list[str]]:
        """The nodes that use a name for their items or their history."""
        found: dict[str, list[str]] = {}
        for node in self._nodes.values():
            if node.batch is not None:
                found.setdefault(node.batch.alias, []).append(node.id)
            if node.loop is not None:
                found.setdefault(node.loop.history, []).append(node.id)
        return found

    @cached_property
    def _what(self) -> Mapping[str, str]:
        aliases = {node.batch.alias: "the item" for node in self._nodes.values() if node.batch}
        return {node.loop.history: "the history" for node in self._nodes.values() if node.loop} | aliases


def _is_shifting(node: NodeSpec) -> bool:
    return node.batch is not None and node.batch.error_handling == "continue"


def _no_field(found: Misnamed, whose: str) -> str:
    """Say which names there are: a first name is an output of a node or a round, others are fields."""
    names = list(found.fields)
    inner = found.owner.partition(".")[2]
    near, there = nearest(found.name, names), listed(names)
    if not inner:
        return f"{whose} has no output {found.name!r}{near}; its outputs: {there}"
    return f"{inner} of {whose} has no field {found.name!r}{near}; its fields: {there}"


def check_first_rounds(spec: WorkflowSpec, problems: Problems) -> None:
    """Report a look at an earlier round that has no default: before the first round there is none."""
    for node in spec.nodes:
        if node.loop is None or is_vague(node, spec):
            continue
        for at, text in texts(node.params, (*node.at, "params")):
            for reference in _without_default(text, node.loop.history):
                message = (
                    f"${{{reference}}}: the first round has no earlier one, so this would fail; add a default, as in "
                    f'${{{reference} ?? ""}}'
                )
                tell(problems, at, message, offset=_offset(str(reference), text))


def _without_default(text: str, history: str) -> Iterator[Reference]:
    try:
        parts = parse(text).parts
    except TemplateError:
        return
    for part in parts:
        if isinstance(part, Placeholder) and len(part.alternatives) == 1:
            reference = part.alternatives[0]
            if isinstance(reference, Reference) and reference.root == history and reference.segments[0].indices:
                yield reference
