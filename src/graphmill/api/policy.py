"""The policy that a graph is run under, once everybody has said what they want."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from graphmill.engine.policy import Isolation, Policy, require_policy
from graphmill.graph.graph import Graph


def policy_for(
    graph: Callable[[Any], Any],
    policy: Policy | None,
    *,
    concurrency: int | None = None,
    isolation: Isolation | None = None,
) -> Policy:
    """Give the policy with what was said beside it.

    Where nobody has said how many attempts are made at once, they are ten or, if that is more, as many as the graph's widest batch
    runs; but no more than fit in the window.
    """
    policy = require_policy(policy)
    if concurrency is not None:
        policy = replace(policy, concurrency=concurrency)
    if policy.concurrency is None:
        policy = replace(policy, concurrency=_usable(graph, policy))
    return policy if isolation is None else replace(policy, isolation=isolation)


def _usable(graph: Callable[[Any], Any], policy: Policy) -> int:
    widest = max(policy.slots, graph.widest) if isinstance(graph, Graph) else policy.slots
    return widest if policy.window is None else min(widest, policy.window)
