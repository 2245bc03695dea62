"""How each node of a graph runs under one policy: computed once for all jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphmill.core.result import Failure
from graphmill.engine.jobs.program import StepRules
from graphmill.engine.policy import Retry
from graphmill.graph.inputs import Binding
from graphmill.graph.secrets import Redactor

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph, Node, RetryRule
    from graphmill.graph.models.models import Models

Redact = Callable[[Failure], Failure]


class GraphPlan:
    """The rules of each node's steps. A node's defaults come from the policy, a child's from the node it runs in.

    ``plain`` are the nodes that are a single step; ``bind`` returns the inputs of an item; ``redact`` removes secrets
    from a failure; ``models`` are those that its nodes call, None if they call none.
    """

    # fmt: off
    __slots__ = (
        "bind", "children", "graph", "incoming", "is_list", "models", "nodes", "plain", "redact", "root", "rules",
    )
    # fmt: on

    def __init__(
        self,
        graph: Graph,
        retry: Retry,
        timeout_s: float | None,
        redact: Redact | None = None,
        *,
        models: Models | None = None,
    ) -> None:
        self.graph = graph
        self.nodes = tuple(graph.nodes.values())
        self.bind = Binding(graph).bind
        self.plain = {node.id for node in self.nodes if node.batch is None and node.loop is None and node.child is None}
        self.incoming = {node.id: len(node.incoming) for node in self.nodes}
        self.is_list = (
            all(edge.action == "*" for node in self.nodes for edge in node.outgoing) and len(graph.starts) == 1
        )
        self.root = Path(graph.path).parent if graph.path is not None else None
        self.rules: dict[str, StepRules] = {}
        self.redact = redact or Redactor(tuple(dict.fromkeys(_secret_names(graph))))
        self.models = models
        self.children: dict[str, GraphPlan] = {}
        for node in self.nodes:
            rules = self.rules[node.id] = _step_rules(node, retry, timeout_s, self.redact)
            if node.child is not None:
                child = GraphPlan(node.child, rules.retry, rules.timeout_s, self.redact, models=models)
                self.children[node.id] = child


def _merge_retry(rule: RetryRule, retry: Retry) -> Retry:
    """Fill in what a rule leaves out."""
    given: dict[str, Any] = {
        name: value for name in ("attempts", "wait_s", "backoff", "cap_s") if (value := getattr(rule, name)) is not None
    }
    if given.get("wait_s", 0.0) > given.get("cap_s", retry.cap_s):
        given["cap_s"] = given["wait_s"]
    return replace(retry, **given) if given else retry


def _secret_names(graph: Graph) -> Iterator[str]:
    """Yield the secrets of a graph and its children, since a child may be given its parent's."""
    for node in graph.nodes.values():
        yield from node.secrets
        if node.child is not None:
            yield from _secret_names(node.child)


def _step_rules(node: Node, retry: Retry, timeout_s: float | None, redact: Redact) -> StepRules:
    limits = [each for each in (node.timeout_s, node.type.timeout_s(node.raw_params)) if each is not None]
    return StepRules(
        retry=_merge_retry(node.retry, retry),
        timeout_s=min(limits, default=timeout_s),
        effect=node.effect,
        isolation=node.type.isolation(node.raw_params),
        memory_bytes=node.type.memory_bytes(node.raw_params),
        is_retried_if_ambiguous=node.on_ambiguous == "retry",
        redact=redact,
    )
