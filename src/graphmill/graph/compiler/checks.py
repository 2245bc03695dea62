"""Checks of names and types, and what all passes share: how a problem is reported, and which parts were misread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphmill.core.suggest import suggestion
from graphmill.graph.graph import Input
from graphmill.graph.language import grammar
from graphmill.graph.language.grammar import NameKind
from graphmill.graph.language.places import At
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.spec import NodeSpec, WorkflowSpec
from graphmill.graph.node_params import param_problems
from graphmill.graph.node_type import NodeType, Site
from graphmill.graph.registry import find_node_type
from graphmill.graph.template import is_name

_MOST_LISTED = 20
_MOST_COMPARED = 500
_MOST_LETTERS = 100
_NODE_KEYS = frozenset(grammar.NODE)
_WORKFLOW_KEYS = frozenset(grammar.WORKFLOW)
RESERVED = ("round", "__index__", "__round__")
Types = Mapping[At, NodeType[Any] | None]


def tell(problems: Problems, at: At, message: str, *, inside: At = (), offset: int = 0) -> None:
    """Tell what is wrong with the part at ``at``; the place is that of ``inside`` it, and ``offset`` where in its text."""
    problems.add((*at, *inside), f"{problems.document.at_text(at)}: {message}", offset=offset)


def listed(names: Sequence[str]) -> str:
    """Name what there is; of many, the first."""
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more or "none"


def nearest(name: str, names: Sequence[str]) -> str:
    """Give ' (did you mean …?)' for the nearest name; of thousands, the first are asked, as each takes its time."""
    return suggestion(name[:_MOST_LETTERS], names[:_MOST_COMPARED])


def is_vague(node: NodeSpec, spec: WorkflowSpec) -> bool:
    """Tell whether a block of a node, or a name that it gives, was not read as it is meant."""
    written = spec.document.get(node.at)
    if any(
        written.get(key) is not None and not isinstance(written[key], Mapping) for key in ("params", "batch", "loop")
    ):
        return True
    batch, loop = written.get("batch") or {}, written.get("loop") or {}
    return (
        _differs(batch, "as", node.batch.alias if node.batch else None)
        or _differs(loop, "history", node.loop.history if node.loop else None)
        or _is_misspelt(written, _NODE_KEYS, ("params", "batch", "loop"))
    )


def lost_names(spec: WorkflowSpec) -> frozenset[str] | None:
    """Give the names of nodes and inputs that could not be read; None if some part without a name was lost."""
    if spec.is_whole:
        return frozenset()
    nodes, read = spec.document.get((*spec.at, "nodes")), {node.at[-1] for node in spec.nodes}
    lost: list[Any] = [
        node.get("id") if isinstance(node, Mapping) else None for number, node in enumerate(nodes) if number not in read
    ]
    inputs, known = spec.document.get((*spec.at, "inputs")), {each.name for each in spec.inputs}
    lost += [name for name in (inputs if isinstance(inputs, Mapping) else ()) if name not in known]
    return frozenset(lost) if all(NameKind().fits(name) for name in lost) else None


def has_vague_inputs(spec: WorkflowSpec) -> bool:
    """Tell whether it is not known which inputs there are."""
    return not isinstance(spec.document.get((*spec.at, "inputs")), Mapping | None) or _is_key_misspelt("inputs", spec)


def has_vague_edges(spec: WorkflowSpec) -> bool:
    """Tell whether it is not known which edges there are."""
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
    """Refuse names that are taken, or that the language keeps for itself; how a name is written was checked before."""
    taken: dict[str, str] = {}
    for at, name, what in _owned(spec):
        if _is_name(name, at, problems):
            if name in taken:
                tell(
                    problems,
                    at,
                    f"the name {name!r} is already that of {taken[name]}; nodes and inputs have each a name of their own",
                )
            taken.setdefault(name, what)
    for node in spec.nodes:
        _check_borrowed(node, taken, problems)


def _owned(spec: WorkflowSpec) -> Iterator[tuple[At, str, str]]:
    for each in spec.inputs:
        yield each.at, each.name, "an input"
    for node in spec.nodes:
        yield (*node.at, "id"), node.id, "a node"


def _check_borrowed(node: NodeSpec, taken: dict[str, str], problems: Problems) -> None:
    """Refuse an alias or a history that a node or an input has as its name; known in their node only, two nodes may use the same."""
    borrowed = []
    if node.batch is not None:
        borrowed.append(((*node.batch.at, "as"), node.batch.alias, "as"))
    if node.loop is not None:
        borrowed.append(((*node.loop.at, "history"), node.loop.history, "history"))
    for at, name, key in borrowed:
        if _is_name(name, at, problems) and name in taken:
            tell(problems, at, f"the name {name!r} is already that of {taken[name]}; give another with `{key}`")
    if len(borrowed) == 2 and borrowed[0][1] == borrowed[1][1]:
        tell(
            problems,
            borrowed[1][0],
            f"the name {borrowed[1][1]!r} is already that of the batch's item; give another with `history`",
        )


def _is_name(name: str, at: At, problems: Problems) -> bool:
    if name in RESERVED:
        tell(problems, at, f"the language keeps the name {name!r} for itself")
    elif not is_name(name):
        tell(problems, at, f"no template can look up the name {name!r}; choose another")
    else:
        return True
    return False


def find_types(spec: WorkflowSpec, problems: Problems) -> Types:
    """Give each node's type by where the node stands, None where there is none of that name."""
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
    """List what the type itself finds wrong with params whose shape is right."""
    try:
        node_type.check(node.params, site)
    except ValueError as error:
        return [error]
    return []


def make_inputs(spec: WorkflowSpec) -> Mapping[str, Input]:
    """Give the declared inputs by name."""
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
