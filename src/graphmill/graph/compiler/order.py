"""The order of nodes: edges, starts, cycles, and the actions that edges wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from graphmill.graph.compiler.checks import Types, has_vague_edges, is_vague, listed, lost_names, nearest, tell
from graphmill.graph.graph import ANY_ACTION, Edge
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.spec import EdgeSpec, NodeSpec, WorkflowSpec

ERROR = "error"
DEFAULT = "default"
END = "end"


@dataclass(frozen=True, slots=True)
class Order:
    """The edges between nodes, and what can have happened before each. Sets of nodes are bits, as there may be many nodes.

    An order in which something is wrong knows nothing about before and after, and then allows all.
    """

    edges: tuple[Edge, ...]
    starts: tuple[str, ...]
    is_sound: bool = True
    _bits: Mapping[str, int] = field(default_factory=dict)
    _before: Mapping[str, int] = field(default_factory=dict)
    _failed: Mapping[str, int] = field(default_factory=dict)

    def can_have_run(self, source: str, before: str | None) -> bool:
        """Tell whether some path leads from one node to the other; None is the end of the job."""
        return not self.is_sound or before is None or bool(self._before[before] & self._bits[source])

    def can_have_failed(self, source: str, before: str | None) -> bool:
        """Tell whether some path that begins with an error edge does."""
        if not self.is_sound or before is None:
            return any(edge.source == source and edge.action == ERROR for edge in self.edges)
        return bool(self._failed[before] & self._bits[source])


def find_order(spec: WorkflowSpec, problems: Problems) -> Order:
    """Take the edges, else the listed order; refuse cycles, unknown ends and nodes that no job can reach."""
    told = len(problems.found)
    ids = list(dict.fromkeys(node.id for node in spec.nodes))
    lost = lost_names(spec)
    edges = _chain(ids) if spec.edges is None else _checked(spec.edges, ids, lost, problems)
    starts = _starts(spec, ids, edges, problems, lost=lost)
    has_all_ends = len(problems.found) == told
    rounds = _Sorted(ids, edges)
    for cycle in rounds.cycles:
        _tell_cycle(cycle, spec, problems)
    if not has_all_ends or rounds.cycles or len(ids) < len(spec.nodes) or has_vague_edges(spec) or not spec.is_whole:
        return Order(edges, starts, is_sound=False)
    _refuse_unreachable(spec, starts, edges, problems)
    bits = {node_id: 1 << number for number, node_id in enumerate(ids)}
    return Order(edges, starts, True, bits, *_masks(rounds.ids, edges, bits))  # noqa: FBT003


def _chain(ids: Iterable[str]) -> tuple[Edge, ...]:
    return tuple(Edge(source=source, target=target, action=ANY_ACTION) for source, target in pairwise(ids))


def _checked(
    edges: Iterable[EdgeSpec], ids: list[str], lost: Collection[str] | None, problems: Problems
) -> tuple[Edge, ...]:
    """Give the edges between nodes that are there; an end that was lost, or may have been, is told already."""
    made: dict[Edge, None] = {}
    known = frozenset(ids)
    for each in edges:
        edge = Edge(source=each.source, target=each.target, action=each.action)
        unknown = [(key, name) for key, name in (("from", each.source), ("to", each.target)) if name not in known]
        for key, name in unknown:
            if lost is not None and name not in lost:
                tell(problems, (*each.at, key), _no_node(name, ids))
        if each.action == ANY_ACTION:
            tell(
                problems,
                (*each.at, "action"),
                "an edge fires on one action; write an edge for each, or leave it out for default",
            )
        if edge in made:
            tell(problems, each.at, f"from {each.source!r} to {each.target!r} on {each.action!r} there is one already")
        elif not unknown:
            made[edge] = None
    return tuple(made)


def _no_node(name: str, ids: list[str]) -> str:
    return f"no node {name!r}{nearest(name, ids)}; there are {listed(ids)}"


def _starts(
    spec: WorkflowSpec, ids: list[str], edges: tuple[Edge, ...], problems: Problems, *, lost: Collection[str] | None
) -> tuple[str, ...]:
    if spec.start_node is None:
        targets = {edge.target for edge in edges}
        return tuple(node_id for node_id in ids if node_id not in targets)
    if spec.start_node not in ids and lost is not None and spec.start_node not in lost:
        tell(problems, (*spec.at, "start_node"), _no_node(spec.start_node, ids))
    return (spec.start_node,)


class _Sorted:
    """Nodes in an order in which each comes after all that lead to it, and one cycle of each knot that has no such order."""

    def __init__(self, ids: list[str], edges: tuple[Edge, ...]) -> None:
        self._targets: dict[str, list[str]] = {node_id: [] for node_id in ids}
        self._waiting = dict.fromkeys(ids, 0)
        for edge in edges:
            self._targets[edge.source].append(edge.target)
            self._waiting[edge.target] += 1
        self.ids: list[str] = []
        self.cycles: list[list[str]] = []
        self._take([node_id for node_id, count in self._waiting.items() if not count])
        while self._waiting:
            self.cycles.append(self._cycle())
            for node_id in self.cycles[-1]:
                self._waiting[node_id] = 0
            self._take(self.cycles[-1])

    def _take(self, ready: list[str]) -> None:
        """Take nodes that wait for nothing, and all that wait for nothing then."""
        queue = list(ready)
        for node_id in queue:
            if self._waiting.pop(node_id, None) is None:
                continue
            self.ids.append(node_id)
            for target in self._targets[node_id]:
                if target in self._waiting and self._waiting[target] > 0:
                    self._waiting[target] -= 1
                    if not self._waiting[target]:
                        queue.append(target)

    def _cycle(self) -> list[str]:
        """Walk back against the edges among the nodes that still wait: each waits for another of them, so it comes round."""
        sources = {
            target: source for source in self._waiting for target in self._targets[source] if target in self._waiting
        }
        node_id = next(iter(self._waiting))
        path: dict[str, None] = {}
        while node_id not in path:
            path[node_id] = None
            node_id = sources[node_id]
        walked = list(path)
        cycle = walked[walked.index(node_id) :][::-1]
        members = set(cycle)
        first = cycle.index(next(each for each in self._targets if each in members))
        return cycle[first:] + cycle[:first]


def _tell_cycle(cycle: list[str], spec: WorkflowSpec, problems: Problems) -> None:
    back = next(edge for edge in spec.edges or () if (edge.source, edge.target) == (cycle[-1], cycle[0]))
    shown = " → ".join([*cycle, cycle[0]])
    tell(problems, back.at, f"the edges go round: {shown}; what is to be repeated is a node with a `loop` block")


def _refuse_unreachable(
    spec: WorkflowSpec, starts: tuple[str, ...], edges: tuple[Edge, ...], problems: Problems
) -> None:
    targets: dict[str, list[str]] = {}
    for edge in edges:
        targets.setdefault(edge.source, []).append(edge.target)
    reached = dict.fromkeys(starts)
    queue = list(starts)
    for node_id in queue:
        new = [target for target in targets.get(node_id, ()) if target not in reached]
        reached.update(dict.fromkeys(new))
        queue.extend(new)
    for node in spec.nodes:
        if node.id not in reached:
            tell(problems, node.at, f"no job can reach it: no edges lead to it from {', '.join(starts)}")


def _masks(ids: list[str], edges: tuple[Edge, ...], bits: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    before = dict.fromkeys(ids, 0)
    failed = dict.fromkeys(ids, 0)
    outgoing: dict[str, list[Edge]] = {node_id: [] for node_id in ids}
    for edge in edges:
        outgoing[edge.source].append(edge)
    for node_id in ids:
        for edge in outgoing[node_id]:
            before[edge.target] |= before[node_id] | bits[node_id]
            failed[edge.target] |= failed[node_id] | (bits[node_id] if edge.action == ERROR else 0)
    return before, failed


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
                _tell_dead(edge, node, actions, problems)
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


def _tell_dead(edge: EdgeSpec, node: NodeSpec, actions: Collection[str], problems: Problems) -> None:
    names = [*actions, ERROR]
    at = (*edge.at, "action")
    message = f"node {node.id!r} ({node.type}) never returns {edge.action!r}{nearest(edge.action, names)}; it returns {listed(names)}"
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
