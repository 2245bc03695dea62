"""A graph: a checked workflow, immutable, shared by all its jobs. It holds no value of any run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from graphmill.core.errors import UsageError
from graphmill.core.fingerprint import ORDER, value_fingerprint
from graphmill.core.job import Effect
from graphmill.core.positions import Problem
from graphmill.core.suggest import suggestion
from graphmill.engine.jobs.program import Program, Programmed
from graphmill.engine.policy import Policy
from graphmill.graph.inputs import is_of_type, type_problem
from graphmill.graph.models.models import NO_CHOICES, Choices, Models
from graphmill.graph.models.nodes import nodes_within, require_use
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
    """How a node's failed attempts are tried again; None is what the run's policy says."""

    attempts: int | None = None
    wait_s: float | None = None
    backoff: str | None = None
    cap_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRule:
    """For each: the items of a node, and how they are run; ``entries`` are those of an array that is written out with templates in it."""

    items: CompiledValue
    entries: tuple[CompiledValue, ...] | None = None
    alias: str = "item"
    error_handling: Literal["fail_fast", "continue"] = "fail_fast"
    is_parallel: bool = False
    max_concurrent: int = 10
    max_failures: int | float | None = None
    is_ordered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRule:
    """Again until: when the rounds of a node end, and which is the best of them."""

    max: CompiledValue | int
    until: Mapping[str, CompiledValue] = field(default_factory=_nothing)
    repeats: Mapping[str, CompiledValue] = field(default_factory=_nothing)
    similarity: float = 0.9
    keep: tuple[Literal["max", "min"], CompiledValue] | None = None
    history: str = "past"
    timeout_s: float | None = None
    budget_usd: float | None = None
    on_error: Literal["fail", "keep"] = "fail"


ANY_ACTION = "*"
_MOST_LISTED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From node to node; it fires when its action is the one that its source returned; in a plain list, on any."""

    source: str
    target: str
    action: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A declared input; one that is not required has a default, null if it names none."""

    name: str
    type: str | None = None
    is_required: bool = False
    default: Any = None
    description: str = ""

    def problem(self, value: Any) -> str | None:
        """Say why a value can not be this input; null can be where it is the default."""
        if is_of_type(value, self.type) or (value is None and not self.is_required and self.default is None):
            return None
        return type_problem(value, str(self.type))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """A vertex: its params compiled and as written, and all the rules by which its steps run.

    ``timeout_s`` None is what the run's policy says. ``secrets`` names the variables of the environment for which a ``Secret``
    stands somewhere in the params.
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
    """Nodes by id in listed order, and the edges between them.

    ``given`` are inputs fixed for every job, ``choices`` what is chosen for its models over all that is written.
    ``written`` is the workflow itself where it was given as data and stands in no file.

    It is given to ``gm.batch``; called by itself it does nothing.
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
    notes: tuple[Problem, ...] = ()
    _plans: dict[int, tuple[Policy, GraphPlan]] = field(
        default_factory=dict, repr=False
    )  # by the id of the policy: its hash takes longer

    def program(self, value: Any, policy: Policy) -> Program:
        """Begin a job over one item."""
        known = self._plans.get(id(policy))
        if known is None:
            known = self._plans[id(policy)] = (
                policy,
                GraphPlan(self, policy.retry, policy.timeout_s, models=self.models()),
            )
        return run_job(known[1], value)

    def __repr__(self) -> str:
        inputs = [name if each.is_required else f"{name}?" for name, each in self.inputs.items()]
        return f"<Graph {self.name!r}: nodes {_listed(list(self.nodes))}; inputs {_listed(inputs)}>"

    def __call__(self, item: Any) -> Any:
        """Refuse: its steps need a run around them."""
        del item
        raise UsageError("a workflow runs as a job of a batch: gm.batch(graph, [inputs])")

    @property
    def fingerprints(self) -> dict[str, str]:
        """Give the fingerprint of each part as it is written: the nodes, their order, inputs and outputs."""
        parts = {f"node {node.id!r}": node.fingerprint for node in self.nodes.values()}
        edges = sorted(
            (edge.source, edge.target, edge.action) for node in self.nodes.values() for edge in node.outgoing
        )
        # Without declared outputs the node that is listed last gives them.
        last = list(self.nodes)[-1:] if self.outputs is None else None
        parts[ORDER] = value_fingerprint([edges, sorted(self.starts), last])
        declared = {each.name: [each.type, each.is_required, each.default] for each in self.inputs.values()}
        parts["inputs"] = value_fingerprint([declared, dict(self.given)])
        parts["outputs"] = self.outputs_fingerprint
        return parts

    @property
    def widest(self) -> int:
        """The most items that one of its parallel batches, or of its children's, runs at once; 1 without any."""
        own = [
            node.batch.max_concurrent
            for node in self.nodes.values()
            if node.batch is not None and node.batch.is_parallel
        ]
        return max([1, *own, *(node.child.widest for node in self.nodes.values() if node.child is not None)])

    def models(self) -> Models | None:
        """Give the models that its nodes ask, by the settings of now; None if they ask none."""
        return Models.here(self.choices) if next(self.model_nodes(), None) is not None else None

    def model_nodes(self) -> Iterator[Node]:
        """Give the nodes that ask a model, its children's too."""
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
        """Give the same graph with other models for its nodes: ``NAME`` for all of them, ``ROLE=NAME`` for those of a role.

        What else is given counts for all of them, whatever they say themselves. UsageError where none of its nodes asks a
        model, or none has that role.
        """
        given = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed, "cache": cache}
        if any(value is not None for value in given.values()):  # else the type need not be loaded
            given = given_params(find_node_type("llm"), given, of="with_models")
        return self.with_choices(Choices.of(models, **given))

    def with_choices(self, choices: Choices) -> Graph:
        """Do the same with what was chosen elsewhere."""
        require_use(self, choices)
        return replace(self, choices=choices, _plans={})

    def renew(self) -> None:
        """Let the next job go by the settings of then: a program may outlive what its file said."""
        self._plans.clear()

    def with_inputs(self, given: Mapping[str, Any]) -> Graph:
        """Give the same graph with these inputs fixed for every job; UsageError for one that it has not, or of a wrong type."""
        for name, value in given.items():
            if name not in self.inputs:
                declared = ", ".join(self.inputs) or "none"
                raise UsageError(
                    f"workflow {self.name!r} has no input {name!r}{suggestion(name, self.inputs)}; it has {declared}"
                )
            if problem := self.inputs[name].problem(value):
                raise UsageError(f"workflow {self.name!r}: input {name!r}: {problem}")
        return replace(self, given=MappingProxyType({**self.given, **given}), _plans={})


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more or "none"
