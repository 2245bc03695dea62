"""A graph's nodes as steps in the trace: each update that LangGraph tells of, with its time."""

from __future__ import annotations

from collections import Counter
from typing import Any

from graphmill.core.json import json_bytes, to_json
from graphmill.core.result import Failure
from graphmill.engine.failures import failure_of, kind_of
from graphmill.engine.frame import Frame
from graphmill.graph.langgraph.node_error import place

_END = ":"  # which LangGraph forbids in a node's name, and Python in a function's


class Updates:
    """Shows each node that has ended as the step ``name:1``, its second time as ``name:2``."""

    def __init__(self, frame: Frame | None) -> None:
        self._frame = frame if frame is not None and frame.is_recorded else None
        self._counts: Counter[str] = Counter()
        self._open: dict[str, float] = {}
        self._has_ended = False

    @property
    def is_wanted(self) -> bool:
        """Whether anybody will see them."""
        return self._frame is not None

    def go_on(self) -> None:
        """Count on from what earlier attempts have shown."""
        for path in () if self._frame is None else self._frame.shown():
            name, _, number = path.rpartition(_END)
            self._counts[name] = max(self._counts[name], int(number))

    def take(self, told: dict[str, Any]) -> None:
        """Take word of a node that begins or ends, on the loop."""
        if self._frame is None:
            return
        if "result" not in told:
            self._begin(told, self._frame.loop.time())
        elif (began_at := self._open.pop(told["id"], None)) is not None:
            self._has_ended = True
            if not told["interrupts"]:  # one that has asked something runs again
                self._end(self._frame, told, began_at)

    def _begin(self, told: dict[str, Any], now: float) -> None:
        if (
            self._has_ended
        ):  # nodes begin together, and the next when all have ended: what is left was finished by an earlier attempt
            self._has_ended = False
            self._open.clear()
        self._open[told["id"]] = now

    def _end(self, frame: Frame, told: dict[str, Any], began_at: float) -> None:
        name, error = told["name"], told["error"]
        self._counts[name] += 1
        failure = _failure(error) if isinstance(error, BaseException) else None
        body = None if failure is not None else _body(told["result"])
        frame.show(f"{name}{_END}{self._counts[name]}", began_at=began_at, body=body, failure=failure)


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
