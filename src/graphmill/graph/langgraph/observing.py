"""Reads LangGraph graphs: fingerprints, checkpointers, errors, and finished nodes as steps of the trace."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from graphmill.core.errors import UsageError
from graphmill.core.fingerprint import ORDER, function_fingerprint, value_fingerprint
from graphmill.core.json import json_bytes, to_json
from graphmill.core.result import Failure
from graphmill.engine.failures import failure_of, kind_of
from graphmill.engine.jobs.context import AttemptContext

_END = ":"  # which LangGraph forbids in a node's name, and Python in a function's
Saving = Literal["async", "plain"]
_ASYNC = ("aget_tuple", "aput", "aput_writes")
_START = "__start__"
_NOTE = re.compile(r"During task with name '(.*)' and id '[^']*'", re.DOTALL)


class Updates:
    """Shows each finished node in the trace as the step ``name:1``, the second time as ``name:2``."""

    def __init__(self, context: AttemptContext | None) -> None:
        self._context = context if context is not None and context.is_recorded else None
        self._counts: Counter[str] = Counter()
        self._open: dict[str, float] = {}
        self._has_ended = False

    def go_on(self) -> None:
        """Continue the numbers of earlier attempts."""
        if self._context is None:
            return
        for path in self._context.shown():
            name, _, number = path.rpartition(_END)
            self._counts[name] = max(self._counts[name], int(number))

    def take(self, task: dict[str, Any]) -> None:
        """Add an event: a node starts or ends."""
        if self._context is None:
            return
        if "result" not in task:
            self._begin(task, self._context.loop.time())
        elif (began_at := self._open.pop(task["id"], None)) is not None:
            self._has_ended = True
            if not task["interrupts"]:  # a node that has asked a question runs again
                self._end(self._context, task, began_at)

    def _begin(self, task: dict[str, Any], now: float) -> None:
        if self._has_ended:
            # Nodes start together, and the next ones when all have ended: what is left here ended in an earlier
            # attempt.
            self._has_ended = False
            self._open.clear()
        self._open[task["id"]] = now

    def _end(self, context: AttemptContext, task: dict[str, Any], began_at: float) -> None:
        name, error = task["name"], task["error"]
        self._counts[name] += 1
        failure = body = None
        if isinstance(error, BaseException):
            failure = _failure(error)
        else:
            body = _body(task["result"])
        context.show(f"{name}{_END}{self._counts[name]}", began_at=began_at, body=body, failure=failure)


def _failure(error: BaseException) -> Failure:
    shorten_notes(error)
    return failure_of(error, kind_of(error))


def _body(update: dict[str, Any]) -> bytes:
    """Encode an update as JSON, with only the type of what is not JSON: the trace must not fail the step."""
    try:
        return json_bytes(update)
    except (TypeError, ValueError, RecursionError):
        return json_bytes({str(key): _or_type(value) for key, value in update.items()})


def _or_type(value: Any) -> Any:
    try:
        to_json(value)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__qualname__}>"
    return value


def saving_of(graph: Any) -> Saving | None:
    """Return how a graph saves checkpoints; None without a checkpointer; UsageError if its nodes can't use it."""
    saver = graph.checkpointer
    if not saver:
        return None
    if saver is True:
        raise UsageError(
            "the LangGraph graph has checkpointer=True, which is only for subgraphs; compile it with a checkpointer of "
            "its own"
        )
    if _is_async(saver):
        _require_loop(saver)
        return "async"
    if name := next(_async_only(graph), None):
        raise UsageError(
            f"node {name!r} of the LangGraph graph is async, and its checkpointer {type(saver).__name__} is not; "
            "compile it with an async one, such as AsyncSqliteSaver"
        )
    return "plain"


def _require_loop(saver: Any) -> None:
    """Refuse a saver that was made in another event loop than the one that is running."""
    own = getattr(saver, "loop", None)
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return
    if isinstance(own, asyncio.AbstractEventLoop) and own is not running:
        raise UsageError(
            f"the LangGraph graph's checkpointer {type(saver).__name__} belongs to another event loop; make it in the "
            "loop of the batch, and call await gm.abatch(…) there"
        )


def _is_async(saver: Any) -> bool:
    """Return whether a saver has the async methods; some, such as SqliteSaver, define a few only to refuse them."""
    from langgraph.checkpoint.base import BaseCheckpointSaver  # noqa: PLC0415

    return all(getattr(type(saver), name) is not getattr(BaseCheckpointSaver, name) for name in _ASYNC)


def _async_only(graph: Any) -> Iterator[str]:
    """Yield the nodes without a plain function, also in subgraphs."""
    for name, node in graph.nodes.items():
        bound = node.bound
        if getattr(bound, "afunc", None) is not None and getattr(bound, "func", None) is None:
            yield name
        for inner in node.subgraphs:
            yield from (f"{name}/{each}" for each in _async_only(inner))


def fingerprints_of(graph: Any) -> dict[str, str]:
    """Return the fingerprint of each part. A node counts by its functions, without what these call."""
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
    by_name = {}
    if isinstance(tools, Mapping):
        by_name = {name: _functions(tool) for name, tool in tools.items()}
    return [type(bound).__qualname__, _functions(bound), by_name]


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
    if ends is None:
        return None
    return {str(key): target for key, target in ends.items()}


def _state(graph: Any) -> Any:
    """Describe the keys of the state, each with how updates are merged."""
    channels = graph.builder.channels if hasattr(graph, "builder") else graph.channels
    return {name: [type(channel).__qualname__, _reducer(channel)] for name, channel in channels.items()}


def _reducer(channel: Any) -> str | None:
    operator = getattr(channel, "operator", None)
    return function_fingerprint(operator) if callable(operator) else None


def shorten_notes(error: BaseException) -> None:
    """Name the node where an error was raised, without LangGraph's task id, which differs for every item."""
    if notes := getattr(error, "__notes__", None):
        error.__notes__ = list(dict.fromkeys(_NOTE.sub(r"in the graph's node '\1'", str(note)) for note in notes))
