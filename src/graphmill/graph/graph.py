"""A graph: a checked workflow, immutable, shared by all its jobs. It holds no value of any run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from graphmill.core.errors import UsageError
from graphmill.core.fingerprint import ORDER, value_fingerprint
from graphmill.core.job import Effect
from graphmill.core.positions import FileProblem
from graphmill.core.suggest import suggestion
from graphmill.engine.jobs.program import Program, Programmed
from graphmill.engine.policy import Policy
from graphmill.graph.inputs import is_of_type, type_problem
from graphmill.graph.models.models import NO_CHOICES, Choices, Models
from graphmill.graph.models.nodes import nodes_within, require_use
from graphmill.graph.models.target import Rehearsal, current_rehearsal
from graphmill.graph.node_params import given_params
from graphmill.graph.registry import find_node_type
from graphmill.graph.run.job import run_job
from graphmill.graph.run.plan import GraphPlan

if TYPE_CHECKING:
    from graphmill.graph.node_type import NodeType
    from graphmill.graph.template import CompiledValue


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """How failed attempts of a node are retried; None is the run's policy."""

    attempts: int | None = None
    wait_s: float | None = None
    backoff: str | None = None
    cap_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRule:
    """The items of a node and how they run; ``entries`` are those of a list that contains templates.

    If the node ``is_counted``, ``items`` is how often it runs.
    """

    items: CompiledValue
    entries: tuple[CompiledValue, ...] | None = None
    is_counted: bool = False
    alias: str = "item"
    error_handling: Literal["fail_fast", "continue"] = "fail_fast"
    is_parallel: bool = False
    max_concurrent: int = 10
    max_failures: int | float | None = None
    is_ordered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRule:
    """When the rounds of a node end, and which is the best. A limit that resolves to null is none."""

    max: CompiledValue
    timeout_s: CompiledValue
    budget_usd: CompiledValue
    until: Mapping[str, CompiledValue] = field(default_factory=_nothing)
    repeats: Mapping[str, CompiledValue] = field(default_factory=_nothing)
    similarity: float = 0.9
    keep: tuple[Literal["max", "min"], tuple[CompiledValue, ...]] | None = None
    history: str = "past"
    on_error: Literal["fail", "keep"] = "fail"


ANY_ACTION = "*"
_MAX_LISTED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From node to node; it is taken if its source returned its action, in a plain list for any action."""

    source: str
    target: str
    action: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A declared input; if it is not required, it has a default, null if none is given."""

    name: str
    type: str | None = None
    is_required: bool = False
    default: Any = None
    description: str = ""

    def problem(self, value: Any) -> str | None:
        """Return why a value is not valid for this input; null is valid if it is the default."""
        is_default = value is None and not self.is_required and self.default is None
        if is_default or is_of_type(value, self.type):
            return None
        return type_problem(value, str(self.type))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """A node: its params compiled and as written, and the rules for its steps.

    ``timeout_s`` None is the run's policy. ``secrets`` are the environment variables that its params name.
    """

    id: str
    type: NodeType[Any]
    params: CompiledValue
    raw_params: Mapping[str, Any]
    retry: RetryRule
    timeout_s: float | None
    effect: Effect
    on_ambiguous: Literal["dead_letter", "retry"]
    batch: BatchRule | None
    loop: LoopRule | None
    child: Graph | None
    incoming: tuple[Edge, ...]
    outgoing: tuple[Edge, ...]
    fingerprint: str
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Graph(Programmed):
    """A workflow, to be passed to ``gm.batch``: nodes by id in listed order, and the edges between them.

    ``given`` are inputs fixed for every job, ``choices`` override its models. ``written`` is the workflow itself if it
    was given as data, without a file; ``texts`` are those of its files by path: its own, its children's and what they
    include.
    """

    name: str
    path: str | None
    inputs: Mapping[str, Input]
    nodes: Mapping[str, Node]
    starts: tuple[str, ...]
    outputs: Mapping[str, CompiledValue] | None
    outputs_fingerprint: str
    given: Mapping[str, Any] = field(default_factory=_nothing)
    choices: Choices = NO_CHOICES
    written: Mapping[str, Any] | None = None
    texts: Mapping[str, str] = field(default_factory=_nothing)
    notes: tuple[FileProblem, ...] = ()
    # By the policy's id, since hashing it takes longer, and for each rehearsal.
    _plans: dict[tuple[int, Rehearsal | None], tuple[Policy, GraphPlan]] = field(default_factory=dict, repr=False)

    def program(self, value: Any, policy: Policy) -> Program:
        """Start a job over one item."""
        key = id(policy), current_rehearsal.get()
        known = self._plans.get(key)
        if known is None:
            known = self._plans[key] = (
                policy,
                GraphPlan(self, policy.retry, policy.timeout_s, models=self.models()),
            )
        return run_job(known[1], value)

    def __repr__(self) -> str:
        inputs = [name if each.is_required else f"{name}?" for name, each in self.inputs.items()]
        return f"<Graph {self.name!r}: nodes {_listed(list(self.nodes))}; inputs {_listed(inputs)}>"

    def __call__(self, item: Any) -> Any:
        """Raise UsageError: the steps of a workflow need a run."""
        del item
        raise UsageError("a workflow cannot be called; run it with gm.batch(graph, [inputs])")

    @property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of each part as written: the nodes, their order, inputs and outputs."""
        parts = {f"node {node.id!r}": node.fingerprint for node in self.nodes.values()}
        edges = sorted(
            (edge.source, edge.target, edge.action) for node in self.nodes.values() for edge in node.outgoing
        )
        # Without declared outputs the last listed node has the outputs.
        last = list(self.nodes)[-1:] if self.outputs is None else None
        parts[ORDER] = value_fingerprint([edges, sorted(self.starts), last])
        declared = {each.name: [each.type, each.is_required, each.default] for each in self.inputs.values()}
        parts["inputs"] = value_fingerprint([declared, dict(self.given)])
        parts["outputs"] = self.outputs_fingerprint
        return parts

    @property
    def widest(self) -> int:
        """The most items that a parallel batch, here or in a child, runs at once; 1 without any."""
        own = [
            node.batch.max_concurrent
            for node in self.nodes.values()
            if node.batch is not None and node.batch.is_parallel
        ]
        return max([1, *own, *(node.child.widest for node in self.nodes.values() if node.child is not None)])

    @property
    def uses_workers(self) -> bool:
        """Whether a node, here or in a child, runs in worker processes."""
        return any(
            node.type.isolation(node.raw_params) is not None or (node.child is not None and node.child.uses_workers)
            for node in self.nodes.values()
        )

    def models(self) -> Models | None:
        """Return the models that its nodes call, from the current settings; None if they call none."""
        if next(self.model_nodes(), None) is None:
            return None
        return Models.here(self.choices)

    def model_nodes(self) -> Iterator[Node]:
        """Yield the nodes that call a model, also in children."""
        for node in self.nodes.values():
            yield from nodes_within(node)

    def with_models(
        self,
        *models: str,
        temperature: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        cache: bool | None = None,
    ) -> Graph:
        """Return this graph with other models: ``NAME`` for all nodes, ``ROLE=NAME`` for those of a role.

        The params apply to all nodes and override theirs. UsageError if no node calls a model, or none has that role.
        """
        given = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed, "cache": cache}
        if any(value is not None for value in given.values()):  # otherwise the type need not be loaded
            given = given_params(find_node_type("llm"), given, of="with_models")
        return self.with_choices(Choices.of(models, **given))

    def with_choices(self, choices: Choices) -> Graph:
        """Return this graph with other choices."""
        require_use(self, choices)
        return replace(self, choices=choices, _plans={})

    def renew(self) -> None:
        """Let the next job read the settings again: their file may have changed."""
        self._plans.clear()

    def with_inputs(self, given: Mapping[str, Any]) -> Graph:
        """Return this graph with inputs fixed for every job; UsageError for an unknown one, or a wrong type."""
        for name, value in given.items():
            if name not in self.inputs:
                declared = ", ".join(self.inputs) or "none"
                near = suggestion(name, self.inputs)
                raise UsageError(f"workflow {self.name!r} has no input {name!r}{near}; its inputs: {declared}")
            if problem := self.inputs[name].problem(value):
                raise UsageError(f"workflow {self.name!r}: input {name!r}: {problem}")
        return replace(self, given=MappingProxyType({**self.given, **given}), _plans={})


def _listed(names: list[str]) -> str:
    if len(names) > _MAX_LISTED:
        return f"{', '.join(names[:_MAX_LISTED])} and {len(names) - _MAX_LISTED} more"
    return ", ".join(names) or "none"
