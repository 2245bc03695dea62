"""State in and out: an item as a graph's input, and its final state as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from graphmill.core.errors import Permanent
from graphmill.graph.run.step import plain

_SCALARS = (str, bytes, int, float, list, tuple, Set, type(None))
_MOST_KEYS = 10


def given_state(graph: Any, item: Any) -> Any:
    """Give the input state of an item: a mapping as it is; anything else only if the graph's state is no mapping."""
    if isinstance(item, Mapping):
        return item if isinstance(item, dict) else dict(item)
    if _has_keys(graph) and isinstance(item, _SCALARS):
        keys = _input_keys(graph)
        raise Permanent(
            f"the LangGraph graph takes a mapping, and the item is {type(item).__name__}; "
            f"give it as {{{keys[0]!r}: …}}; the keys of its input are {', '.join(map(repr, keys[:_MOST_KEYS]))}"
        )
    return item


def plain_state(state: Any) -> Any:
    """Give a state as JSON gives it back; Permanent names the key, and the type, that JSON can not hold."""
    if not isinstance(state, dict):
        return plain(state)
    return {str(key): _plain(key, value) for key, value in state.items()}


def _plain(key: Any, value: Any) -> Any:
    try:
        return plain(value)
    except Permanent as error:
        reason = str(error).removeprefix("the output is not JSON: ")
        raise Permanent(
            f"the state's {key!r} is not JSON: {reason}; leave it out of the graph's output schema"
        ) from error


def _has_keys(graph: Any) -> bool:
    """Tell whether a graph's state has keys: a StateGraph over a single value and a functional graph have none."""
    if hasattr(graph, "builder"):
        return "__root__" not in graph.channels
    return not isinstance(graph.input_channels, str)


def _input_keys(graph: Any) -> list[str]:
    if hasattr(graph, "builder"):
        return list(graph.builder.schemas[graph.builder.input_schema]) or ["…"]
    return list(graph.input_channels)
