"""Reads LangGraph graphs: fingerprints, checkpointers, errors, and finished nodes as steps of the trace."""

from __future__ import annotations

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
    """Shows each node that has ended as the step ``name:1``, its second time as ``name:2``."""

    def __init__(self, context: AttemptContext | None) -> None:
        self._context = context if context is not None and context.is_recorded else None
        self._counts: Counter[str] = Counter()
        self._open: dict[str, float] = {}
        self._has_ended = False

    @property
    def is_wanted(self) -> bool:
        """Whether anybody will see them."""
        return self._context is not None

    def go_on(self) -> None:
        """Count on from what earlier attempts have shown."""
        for path in () if self._context is None else self._context.shown():
            name, _, number = path.rpartition(_END)
            self._counts[name] = max(self._counts[name], int(number))

    def take(self, told: dict[str, Any]) -> None:
        """Take word of a node that begins or ends, on the loop."""
        if self._context is None:
            return
        if "result" not in told:
            self._begin(told, self._context.loop.time())
        elif (began_at := self._open.pop(told["id"], None)) is not None:
            self._has_ended = True
            if not told["interrupts"]:  # one that has asked something runs again
                self._end(self._context, told, began_at)

    def _begin(self, told: dict[str, Any], now: float) -> None:
        if (
            self._has_ended
        ):  # nodes begin together, and the next when all have ended: what is left was finished by an earlier attempt
            self._has_ended = False
            self._open.clear()
        self._open[told["id"]] = now

    def _end(self, context: AttemptContext, told: dict[str, Any], began_at: float) -> None:
        name, error = told["name"], told["error"]
        self._counts[name] += 1
        failure = _failure(error) if isinstance(error, BaseException) else None
        body = None if failure is not None else _body(told["result"])
        context.show(f"{name}{_END}{self._counts[name]}", began_at=began_at, body=body, failure=failure)


def _failure(error: BaseException) -> Failure:
    place(error)
    return failure_of(error, kind_of(error))


def _body(update: dict[str, Any]) -> bytes:
    """Write an update as JSON, of what JSON can not hold only the type: to be shown is no reason to fail."""
    try:
        return json_bytes(update)
    except (TypeError, ValueError, RecursionError):
        return json_bytes({str(key): _told(value) for key, value in update.items()})


def _told(value: Any) -> Any:
    try:
        to_json(value)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__qualname__}>"
    return value


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


def place(error: BaseException) -> None:
    """Say in which node an error was raised, without LangGraph's id of it, which is another for every item."""
    if notes := getattr(error, "__notes__", None):
        error.__notes__ = list(dict.fromkeys(_NOTE.sub(r"in the graph's node '\1'", str(note)) for note in notes))
