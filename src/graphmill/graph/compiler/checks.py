"""Checks of names and types, and what all passes share: how problems are reported, and which parts were misread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphmill.core.suggest import suggestion
from graphmill.graph.graph import Input
from graphmill.graph.language import grammar
from graphmill.graph.language.grammar import NAME
from graphmill.graph.language.places import At
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.spec import NodeSpec, WorkflowSpec
from graphmill.graph.node_params import param_problems
from graphmill.graph.node_type import NodeType, Site
from graphmill.graph.registry import find_node_type
from graphmill.graph.template import is_name

_MAX_LISTED = 20
_MAX_COMPARED = 500
_MAX_CHARS = 100
_NODE_KEYS = frozenset(grammar.NODE)
_WORKFLOW_KEYS = frozenset(grammar.WORKFLOW)
RESERVED = ("round", "__index__", "__round__")
Types = Mapping[At, NodeType[Any] | None]


def tell(problems: Problems, at: At, message: str, *, inside: At = (), offset: int = 0) -> None:
    """Report a problem of a part, at the position of ``inside`` it, ``offset`` characters into its text."""
    problems.add((*at, *inside), f"{problems.document.at_text(at)}: {message}", offset=offset)


def listed(names: Sequence[str]) -> str:
    """List names, or the first of many."""
    if len(names) > _MAX_LISTED:
        return f"{', '.join(names[:_MAX_LISTED])} and {len(names) - _MAX_LISTED} more"
    return ", ".join(names) or "none"


def nearest(name: str, names: Sequence[str]) -> str:
    """Return ' (did you mean …?)' for the nearest name; only the first of many are compared, since each takes time."""
    return suggestion(name[:_MAX_CHARS], names[:_MAX_COMPARED])


def is_vague(node: NodeSpec, spec: WorkflowSpec) -> bool:
    """Return whether a block of a node was misread, which is reported already: later checks leave the node alone."""
    written = spec.document.get(node.at)
    if any(
        written.get(key) is not None and not isinstance(written[key], Mapping) for key in ("params", "batch", "loop")
    ):
        return True
    if node.batch is not None and _differs(written["batch"], "as", node.batch.alias):
        return True
    if node.loop is not None and _differs(written["loop"], "history", node.loop.history):
        return True
    return _is_misspelt(written, _NODE_KEYS, ("params", "batch", "loop"))


def lost_names(spec: WorkflowSpec) -> frozenset[str] | None:
    """Return the names of nodes and inputs that could not be read; None if one of these has no readable name."""
    if spec.is_whole:
        return frozenset()
    unread: list[Any] = []
    read_nodes = {node.at[-1] for node in spec.nodes}
    for number, node in enumerate(spec.document.get((*spec.at, "nodes"))):
        if number not in read_nodes:
            unread.append(node.get("id") if isinstance(node, Mapping) else None)
    inputs, read_inputs = spec.document.get((*spec.at, "inputs")), {each.name for each in spec.inputs}
    if isinstance(inputs, Mapping):
        unread += [name for name in inputs if name not in read_inputs]
    if not all(NAME.fits(name) for name in unread):
        return None
    return frozenset(unread)


def has_vague_inputs(spec: WorkflowSpec) -> bool:
    """Return whether the declared inputs are unknown because ``inputs`` was misread."""
    return not isinstance(spec.document.get((*spec.at, "inputs")), Mapping | None) or _is_key_misspelt("inputs", spec)


def has_vague_edges(spec: WorkflowSpec) -> bool:
    """Return whether the edges are unknown because ``edges`` was misread."""
    return not isinstance(spec.document.get((*spec.at, "edges")), list | tuple | None) or _is_key_misspelt(
        "edges", spec
    )


def _is_key_misspelt(key: str, spec: WorkflowSpec) -> bool:
    return _is_misspelt(spec.document.get(spec.at), _WORKFLOW_KEYS, (key,))


def _is_misspelt(written: Mapping[Any, Any], known: frozenset[str], keys: tuple[str, ...]) -> bool:
    return any(suggestion(str(key)[:100], keys) for key in written if key not in known)


def _differs(written: Mapping[str, Any], key: str, read: str | None) -> bool:
    return written.get(key) is not None and written[key] != read


def check_names(spec: WorkflowSpec, problems: Problems) -> None:
    """Report names that are taken or reserved; the reader has checked how they are written."""
    taken: dict[str, str] = {}
    for at, name, what in _owned(spec):
        if _is_name(name, at, problems):
            if name in taken:
                tell(problems, at, f"the name {name!r} is already used by {taken[name]}; choose another")
            taken.setdefault(name, what)
    for node in spec.nodes:
        _check_borrowed(node, taken, problems)


def _owned(spec: WorkflowSpec) -> Iterator[tuple[At, str, str]]:
    for each in spec.inputs:
        yield each.at, each.name, "an input"
    for node in spec.nodes:
        yield (*node.at, "id"), node.id, "a node"


def _check_borrowed(node: NodeSpec, taken: dict[str, str], problems: Problems) -> None:
    """Report an alias or history with the name of a node or input. Two nodes may use the same one."""
    borrowed = []
    if node.batch is not None:
        borrowed.append(((*node.batch.at, "as"), node.batch.alias, "as"))
    if node.loop is not None:
        borrowed.append(((*node.loop.at, "history"), node.loop.history, "history"))
    for at, name, key in borrowed:
        if _is_name(name, at, problems) and name in taken:
            tell(problems, at, f"the name {name!r} is already used by {taken[name]}; choose another with `{key}`")
    if len(borrowed) == 2 and borrowed[0][1] == borrowed[1][1]:
        message = f"the name {borrowed[1][1]!r} is already used by the batch's item; choose another with `history`"
        tell(problems, borrowed[1][0], message)


def _is_name(name: str, at: At, problems: Problems) -> bool:
    if name in RESERVED:
        tell(problems, at, f"the name {name!r} is reserved; choose another")
    elif not is_name(name):
        tell(problems, at, f"templates cannot look up the name {name!r}; choose another")
    else:
        return True
    return False


def find_types(spec: WorkflowSpec, problems: Problems) -> Types:
    """Return the type of each node by the node's place; None if there is no such type."""
    types = {node.at: _type(node, problems) for node in spec.nodes}
    for node in spec.nodes:
        if (node_type := types[node.at]) is not None and not is_vague(node, spec):
            _check(node, node_type, Site(id=node.id, root=spec.document.root), problems)
    return types


def _type(node: NodeSpec, problems: Problems) -> NodeType[Any] | None:
    try:
        return find_node_type(node.type)
    except ValueError as error:
        tell(problems, (*node.at, "type"), str(error))
        return None


def _check(node: NodeSpec, node_type: NodeType[Any], site: Site, problems: Problems) -> None:
    found: list[Any] = param_problems(node_type, node.params) or _own_problems(node, node_type, site)
    for error in found:
        tell(problems, (*node.at, "params"), str(error), inside=getattr(error, "at", ()))


def _own_problems(node: NodeSpec, node_type: NodeType[Any], site: Site) -> list[ValueError]:
    """Return what the type's own check finds in params whose shape is right."""
    try:
        node_type.check(node.params, site)
    except ValueError as error:
        return [error]
    return []


def make_inputs(spec: WorkflowSpec) -> Mapping[str, Input]:
    """Return the declared inputs by name."""
    return {
        each.name: Input(
            name=each.name,
            type=each.type,
            is_required=each.is_required,
            default=each.default,
            description=each.description,
        )
        for each in spec.inputs
    }
