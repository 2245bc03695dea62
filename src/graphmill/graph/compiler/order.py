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
    """The edges between nodes, and what can have run before each. Sets of nodes are bit masks.

    An order with a mistake in it knows nothing about before and after, and allows everything.
    """

    edges: tuple[Edge, ...]
    starts: tuple[str, ...]
    is_sound: bool = True
    _bits: Mapping[str, int] = field(default_factory=dict)
    _before: Mapping[str, int] = field(default_factory=dict)
    _failed: Mapping[str, int] = field(default_factory=dict)

    def can_have_run(self, source: str, before: str | None) -> bool:
        """Return whether some path leads from one node to the other; None is the end of the job."""
        return not self.is_sound or before is None or bool(self._before[before] & self._bits[source])

    def can_have_failed(self, source: str, before: str | None) -> bool:
        """Return whether some path that starts with an error edge does."""
        if not self.is_sound or before is None:
            return any(edge.source == source and edge.action == ERROR for edge in self.edges)
        return bool(self._failed[before] & self._bits[source])


def find_order(spec: WorkflowSpec, problems: Problems) -> Order:
    """Return the edges, or the listed order; report cycles, unknown ends and nodes that no job can reach."""
    problem_count = len(problems.found)
    ids = list(dict.fromkeys(node.id for node in spec.nodes))
    lost = lost_names(spec)
    edges = _edges(spec, ids, lost, problems)
    starts = _starts(spec, ids, edges, problems, lost=lost)
    has_all_ends = len(problems.found) == problem_count
    rounds = _Sorted(ids, edges)
    for cycle in rounds.cycles:
        _report_cycle(cycle, spec, problems)
    if not has_all_ends or rounds.cycles or len(ids) < len(spec.nodes) or has_vague_edges(spec) or not spec.is_whole:
        return Order(edges, starts, is_sound=False)
    _report_unreachable(spec, starts, edges, problems)
    bits = {node_id: 1 << number for number, node_id in enumerate(ids)}
    return Order(edges, starts, True, bits, *_masks(rounds.ids, edges, bits))  # noqa: FBT003


def _chain(ids: Iterable[str]) -> tuple[Edge, ...]:
    return tuple(Edge(source=source, target=target, action=ANY_ACTION) for source, target in pairwise(ids))


def _edges(spec: WorkflowSpec, ids: list[str], lost: Collection[str] | None, problems: Problems) -> tuple[Edge, ...]:
    """Return the edges between existing nodes; a missing node that could not be read is reported already."""
    if spec.edges is None:
        return _chain(ids)
    made: dict[Edge, None] = {}
    known = frozenset(ids)
    for each in spec.edges:
        edge = Edge(source=each.source, target=each.target, action=each.action)
        unknown = [(key, name) for key, name in (("from", each.source), ("to", each.target)) if name not in known]
        for key, name in unknown:
            if lost is not None and name not in lost:
                tell(problems, (*each.at, key), _no_node(name, ids))
        if each.action == ANY_ACTION:
            message = "an edge has a single action; write an edge for each, or omit it for 'default'"
            tell(problems, (*each.at, "action"), message)
        if edge in made:
            tell(
                problems,
                each.at,
                f"duplicate edge from {each.source!r} to {each.target!r} on {each.action!r}; remove one",
            )
        elif not unknown:
            made[edge] = None
    return tuple(made)


def _no_node(name: str, ids: list[str]) -> str:
    return f"no node {name!r}{nearest(name, ids)}; nodes: {listed(ids)}"


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
    """Nodes in dependency order, and one cycle of each group that cannot be sorted."""

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
        """Take nodes that wait for nothing, and all nodes that then wait for nothing."""
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
        """Walk back along edges among the waiting nodes: each waits for another of them, so the walk closes a cycle."""
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


def _report_cycle(cycle: list[str], spec: WorkflowSpec, problems: Problems) -> None:
    back = next(edge for edge in spec.edges or () if (edge.source, edge.target) == (cycle[-1], cycle[0]))
    shown = " → ".join([*cycle, cycle[0]])
    tell(problems, back.at, f"the edges form a cycle: {shown}; to repeat something, use a node with a `loop` block")


def _report_unreachable(
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
            tell(problems, node.at, f"unreachable: no edges lead to it from {', '.join(starts)}")


def _masks(ids: list[str], edges: tuple[Edge, ...], bits: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    before = dict.fromkeys(ids, 0)
    failed = dict.fromkeys(ids, 0)
    outgoing: dict[str, list[Edge]] = {node_id: [] for node_id in ids}
    for edge in edges:
        outgoing[edge.source].append(edge)
    for node_id in ids:
        for edge in outgoing[node_id]:
            before[edge.target] |= before[node_id] | bits[node_id]
            failed[edge.target] |= failed[node_id]
            if edge.action == ERROR:
                failed[edge.target] |= bits[node_id]
    return before, failed


def check_actions(spec: WorkflowSpec, types: Types, problems: Problems) -> None:
    """Report edges that are never taken, and note actions without an edge; open types may return any action."""
    if spec.edges is None:
        _note_after_end(spec, types, problems)
        return
    known = _known(spec, types)
    for edge in spec.edges:
        if edge.source in known:
            node, actions = known[edge.source]
            if edge.action not in (*actions, ERROR, ANY_ACTION):  # the last is reported already
                _report_dead_edge(edge, node, actions, problems)
    taken: dict[str, set[str]] = {}
    for edge in spec.edges:
        taken.setdefault(edge.source, set()).add(edge.action)
    for node, actions in known.values():
        _note_untaken(node, actions, taken.get(node.id, set()), problems)


def _note_after_end(spec: WorkflowSpec, types: Types, problems: Problems) -> None:
    """Note a node that is listed after one that always ends the job."""
    for node, behind in pairwise(spec.nodes):
        if (node_type := types[node.at]) is not None and node_type.is_end and _actions(node, types) == (END,):
            message = f"never runs, because {node.id!r} ends the job; list it earlier, or write edges"
            problems.note(behind.at, f"{problems.document.at_text(behind.at)}: {message}")
            return


def _known(spec: WorkflowSpec, types: Types) -> Mapping[str, tuple[NodeSpec, Collection[str]]]:
    """Return the nodes whose possible actions are known, apart from 'error'."""
    named = Counter(node.id for node in spec.nodes)
    sound = [node for node in spec.nodes if named[node.id] == 1 and not is_vague(node, spec)]
    return {node.id: (node, actions) for node in sound if (actions := _actions(node, types)) is not None}


def _actions(node: NodeSpec, types: Types) -> Collection[str] | None:
    if node.batch is not None or node.loop is not None:
        return (DEFAULT,)
    node_type = types[node.at]
    if node_type is None:
        return None
    return node_type.actions(node.params)


def _report_dead_edge(edge: EdgeSpec, node: NodeSpec, actions: Collection[str], problems: Problems) -> None:
    names = [*actions, ERROR]
    at = (*edge.at, "action")
    never = f"node {node.id!r} ({node.type}) never returns {edge.action!r}{nearest(edge.action, names)}"
    tell(problems, at, f"{never}; its actions: {listed(names)}")


def _note_untaken(node: NodeSpec, actions: Collection[str], taken: Collection[str], problems: Problems) -> None:
    """Note the actions of a branching node that no edge takes."""
    if len(actions) == 1 or not taken:
        return
    for action in actions:
        if action not in taken:
            where = problems.document.at_text(node.at)
            problems.note(node.at, f"{where}: no edge takes its action {action!r}, so nothing runs after it")
