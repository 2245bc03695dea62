"""How the steps of a graph's nodes are attempted under one policy: worked out once, for all jobs."""

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


class Plan:
    """The rules of each node's steps; what a node leaves out is the policy's. A child's defaults are those of the node it runs in.

    ``plain`` are the nodes that are one step each, and no more; ``bind`` gives the inputs of an item;
    ``redact`` removes secrets from a failure; ``models`` are those that its nodes ask, None if they ask none.
    """

    __slots__ = (
        "bind",
        "children",
        "graph",
        "incoming",
        "is_list",
        "models",
        "nodes",
        "plain",
        "redact",
        "root",
        "rules",
    )

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
        self.incoming = {node.id: len(node.incoming) for node in graph.nodes.values()}
        self.is_list = (
            all(edge.action == "*" for node in graph.nodes.values() for edge in node.outgoing)
            and len(graph.starts) == 1
        )
        self.root = None if graph.path is None else Path(graph.path).parent
        self.rules: dict[str, StepRules] = {}
        self.redact = redact or Redactor(tuple(dict.fromkeys(_secrets(graph))))
        self.models = models
        self.children: dict[str, Plan] = {}
        for node in graph.nodes.values():
            merged = merged_retry(node.retry, retry)
            limits = [each for each in (node.timeout_s, node.type.timeout_s(node.raw_params)) if each is not None]
            seconds = min(limits, default=timeout_s)
            self.rules[node.id] = _rules(node, merged, seconds, self.redact)
            if node.child is not None:
                self.children[node.id] = Plan(node.child, merged, seconds, self.redact, models=models)


def merged_retry(rule: RetryRule, retry: Retry) -> Retry:
    """Fill in what a rule leaves out."""
    given: dict[str, Any] = {
        name: value for name in ("attempts", "wait_s", "backoff", "cap_s") if (value := getattr(rule, name)) is not None
    }
    if given.get("wait_s", 0.0) > given.get("cap_s", retry.cap_s):
        given["cap_s"] = given["wait_s"]
    return replace(retry, **given) if given else retry


def _secrets(graph: Graph) -> Iterator[str]:
    """Name the secrets of a graph and of all below it: a child may be given its parent's."""
    for node in graph.nodes.values():
        yield from node.secrets
        if node.child is not None:
            yield from _secrets(node.child)


def _rules(node: Node, retry: Retry, timeout_s: float | None, redact: Redact) -> StepRules:
    return StepRules(
        retry=retry,
        timeout_s=timeout_s,
        effect=node.effect,
        isolation=node.type.isolation(node.raw_params),
        is_retried_if_ambiguous=node.on_ambiguous == "retry",
        redact=redact,
    )
