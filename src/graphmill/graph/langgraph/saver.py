"""How a graph's own checkpointer is used: by its async methods where it has them, else by its plain ones in a thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from graphmill.core.errors import UsageError

Saving = Literal["async", "plain"]
_ASYNC = ("aget_tuple", "aput", "aput_writes")


def saving_of(graph: Any) -> Saving | None:
    """Tell how a graph saves its checkpoints; None if it has no checkpointer. UsageError if its nodes can not be run with that."""
    saver = graph.checkpointer
    if not saver:
        return None
    if saver is True:
        raise UsageError(
            "the LangGraph graph has checkpointer=True, which is for subgraphs; compile it with a checkpointer of its own"
        )
    if _is_async(saver):
        return "async"
    if name := next(_async_only(graph), None):
        raise UsageError(
            f"node {name!r} of the LangGraph graph is async, and its checkpointer {type(saver).__name__} is not; "
            "compile it with an async one, such as AsyncSqliteSaver"
        )
    return "plain"


def _is_async(saver: Any) -> bool:
    """Tell whether a saver has the async methods: some that do not, as SqliteSaver, define a few only to refuse them."""
    from langgraph.checkpoint.base import BaseCheckpointSaver  # noqa: PLC0415

    return all(getattr(type(saver), name) is not getattr(BaseCheckpointSaver, name) for name in _ASYNC)


def _async_only(graph: Any) -> Iterator[str]:
    """Name the nodes that have no plain function, in subgraphs too."""
    for name, node in graph.nodes.items():
        bound = node.bound
        if getattr(bound, "afunc", None) is not None and getattr(bound, "func", None) is None:
            yield name
        for inner in node.subgraphs:
            yield from (f"{name}/{each}" for each in _async_only(inner))
