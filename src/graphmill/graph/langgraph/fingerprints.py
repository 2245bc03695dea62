"""The fingerprints of a LangGraph graph, one for each part: its nodes, their order, its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphmill.core.fingerprint import ORDER, function_fingerprint, value_fingerprint

_START = "__start__"


def fingerprints_of(graph: Any) -> dict[str, str]:
    """Give them by part. A node goes by its functions as a plain function does: what they call in turn is not seen."""
    parts = {
        f"node {name!r}": value_fingerprint(_code(node.bound)) for name, node in graph.nodes.items() if name != _START
    }
    parts[ORDER] = value_fingerprint(_order(graph))
    parts["state"] = value_fingerprint(_state(graph))
    return parts


def _code(bound: Any) -> Any:
    """Describe what a node runs: functions, a subgraph, a series of these; anything else by its type."""
    if hasattr(bound, "nodes") and hasattr(bound, "channels"):
        return fingerprints_of(bound)
    if isinstance(steps := getattr(bound, "steps", None), list):
        return [_code(each) for each in steps]
    tools = getattr(bound, "tools_by_name", None)
    known = {name: _functions(tool) for name, tool in tools.items()} if isinstance(tools, Mapping) else {}
    return [type(bound).__qualname__, _functions(bound), known]


def _functions(holder: Any) -> list[str]:
    found = (getattr(holder, name, None) for name in ("func", "afunc", "coroutine"))
    return [function_fingerprint(each) for each in found if callable(each)]


def _order(graph: Any) -> Any:
    builder = getattr(graph, "builder", None)
    if builder is None:
        return {name: [sorted(node.triggers), node.channels] for name, node in graph.nodes.items()}
    branches = {
        source: {name: [_code(branch.path), _plain_ends(branch.ends)] for name, branch in named.items()}
        for source, named in builder.branches.items()
    }
    waiting = sorted([sorted(sources), target] for sources, target in builder.waiting_edges)
    return [sorted(map(list, builder.edges)), waiting, branches]


def _plain_ends(ends: Mapping[Any, str] | None) -> Any:
    return None if ends is None else {str(key): target for key, target in ends.items()}


def _state(graph: Any) -> Any:
    """Describe the keys of the state, each with how updates are put together there."""
    channels = graph.builder.channels if hasattr(graph, "builder") else graph.channels
    return {name: [type(channel).__qualname__, _reducer(channel)] for name, channel in channels.items()}


def _reducer(channel: Any) -> str | None:
    operator = getattr(channel, "operator", None)
    return function_fingerprint(operator) if callable(operator) else None
