"""The pass of actions: an edge waits for an action that its source can return, and an action that can be returned leads somewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import pairwise

from graphmill.graph.compiler.order import ERROR
from graphmill.graph.compiler.telling import listed, nearest, tell
from graphmill.graph.compiler.types import Types
from graphmill.graph.compiler.vague import is_vague
from graphmill.graph.graph import ANY_ACTION
from graphmill.graph.problems import Problems
from graphmill.graph.spec import EdgeSpec, NodeSpec, WorkflowSpec

DEFAULT = "default"
END = "end"


def check_actions(spec: WorkflowSpec, types: Types, problems: Problems) -> None:
    """Tell each edge that can never fire, and note what nothing leads to; a type that does not name its actions returns any."""
    if spec.edges is None:
        _note_behind_end(spec, types, problems)
        return
    known = _known(spec, types)
    for edge in spec.edges:
        if edge.source in known:
            node, actions = known[edge.source]
            if edge.action not in (*actions, ERROR, ANY_ACTION):  # the last is told already
                _tell_dead(edge, node, actions, spec=spec, problems=problems)
    taken: dict[str, set[str]] = {}
    for edge in spec.edges:
        taken.setdefault(edge.source, set()).add(edge.action)
    for node, actions in known.values():
        _note_untaken(node, actions, taken.get(node.id, set()), problems)


def _note_behind_end(spec: WorkflowSpec, types: Types, problems: Problems) -> None:
    """Note the node that is listed behind one that always ends the job."""
    for node, behind in pairwise(spec.nodes):
        if (node_type := types[node.at]) is not None and node_type.is_end and _actions(node, types) == (END,):
            message = f"it never runs, since {node.id!r} ends the job whatever its status is; list it before that, or write edges"
            problems.note(behind.at, f"{problems.document.at_text(behind.at)}: {message}")
            return


def _known(spec: WorkflowSpec, types: Types) -> Mapping[str, tuple[NodeSpec, Collection[str]]]:
    """Give the nodes of which it is known what they can return, if they do not fail."""
    named = Counter(node.id for node in spec.nodes)
    sound = [node for node in spec.nodes if named[node.id] == 1 and not is_vague(node, spec)]
    return {node.id: (node, actions) for node in sound if (actions := _actions(node, types)) is not None}


def _actions(node: NodeSpec, types: Types) -> Collection[str] | None:
    if node.batch is not None or node.loop is not None:
        return (DEFAULT,)
    node_type = types[node.at]
    return None if node_type is None else node_type.actions(node.params)


def _tell_dead(
    edge: EdgeSpec, node: NodeSpec, actions: Collection[str], *, spec: WorkflowSpec, problems: Problems
) -> None:
    names = [*actions, ERROR]
    at = (*edge.at, "action")
    message = f"node {node.id!r} ({node.type}) never returns {edge.action!r}{nearest(edge.action, names)}; it returns {listed(names)}"
    if "ir_version" in spec.document.get(spec.at):
        problems.note(at, f"this edge is never taken: {message}")
    else:
        tell(problems, at, message)


def _note_untaken(node: NodeSpec, actions: Collection[str], taken: Collection[str], problems: Problems) -> None:
    """Note what leads nowhere, of a node that chooses among edges."""
    if len(actions) == 1 or not taken:
        return
    for action in actions:
        if action not in taken:
            problems.note(
                node.at,
                f"{problems.document.at_text(node.at)}: no edge takes its action {action!r}; nothing runs after it then",
            )
