"""One graph's work on one input, in a thread of LangGraph's: begun, or gone on with where its checkpointer left it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from graphmill.core.errors import Permanent
from graphmill.core.keys import canonical, digest
from graphmill.engine.frame import Frame
from graphmill.engine.workers import call
from graphmill.graph.langgraph.node_error import place
from graphmill.graph.langgraph.saver import Saving
from graphmill.graph.langgraph.updates import Updates

_MARK = "graphmill_input"
_INTERRUPT = "__interrupt__"


class Thread:
    """Goes by its run, item and generation, so that every attempt of that generation finds it again.

    What it was given is marked in its checkpoints: an input that was edited meanwhile begins another thread.
    """

    def __init__(self, graph: Any, saving: Saving | None, frame: Frame | None, *, config: dict[str, Any], given: Any) -> None:
        self._graph = graph
        self._saving = saving
        self._frame = frame
        self._config = config
        self._content = "" if saving is None else _content(given)
        if frame is not None:
            self._config = _with_thread(config, frame.address, self._content)
        self._updates = Updates(frame)

    async def run(self, state: Any) -> Any:
        """Give the final state; what LangGraph has finished of it is not run again."""
        try:
            return await self._finished(state)
        except Exception as error:
            place(error)
            raise

    async def _finished(self, state: Any) -> Any:
        known = None if self._saving is None or self._frame is None else await self._known()
        if known is not None:
            self._updates.go_on()
        read = await self._streamed(state if known is None else None)
        if read.interrupts:
            raise Permanent("the graph has asked something, and nobody can answer yet")
        return read.state

    async def _known(self) -> Any:
        """Find what the checkpointer has of this thread; None if that is nothing, or of another input."""
        for address in (self._frame_address, f"{self._frame_address}/{self._content}"):
            self._config = _with_thread(self._config, address, self._content)
            found = await self._asked("get_state")
            if found.metadata is None:
                return None
            if found.metadata.get(_MARK) == self._content:
                return found
        return None

    @property
    def _frame_address(self) -> str:
        return "" if self._frame is None else self._frame.address

    async def _asked(self, name: str) -> Any:
        if self._saving == "async":
            return await getattr(self._graph, f"a{name}")(self._config)
        return await call(getattr(self._graph, name), self._config)

    async def _streamed(self, given: Any) -> _Reading:
        reading = _Reading(self._updates)
        modes = ["tasks", "values"] if self._updates.is_wanted else ["values"]
        options = {"stream_mode": modes, "output_keys": self._graph.output_channels}
        if self._saving is not None:
            options["durability"] = "sync"
        if self._saving == "plain":
            loop = asyncio.get_running_loop()
            await call(_drain, self._graph, given, self._config, options, lambda chunk: loop.call_soon_threadsafe(reading.take, chunk))
            return reading
        async with aclosing(self._graph.astream(given, self._config, **options)) as chunks:
            async for chunk in chunks:
                reading.take(chunk)
        return reading


class _Reading:
    """What a stream has told: the newest state, and what the graph has asked."""

    def __init__(self, updates: Updates) -> None:
        self._updates = updates
        self.state: Any = None
        self.interrupts: list[Any] = []

    def take(self, chunk: tuple[str, Any]) -> None:
        """Take one chunk of it."""
        mode, told = chunk
        if mode == "tasks":
            self._updates.take(told)
        elif isinstance(told, dict) and _INTERRUPT in told:
            self.interrupts += told[_INTERRUPT]
        else:
            self.state = told


def _drain(graph: Any, given: Any, config: dict[str, Any], options: dict[str, Any], take: Callable[[Any], object]) -> None:
    for chunk in graph.stream(given, config, **options):
        take(chunk)


def _with_thread(config: dict[str, Any], address: str, content: str) -> dict[str, Any]:
    marks = {_MARK: content} if content else {}
    return {
        **config,
        "configurable": {**config.get("configurable", {}), "thread_id": address},
        "metadata": {**config.get("metadata", {}), **marks},
    }


def _content(given: Any) -> str:
    try:
        return digest(canonical(given)).hex()
    except (TypeError, ValueError, RecursionError):  # that it is still the same can not be told
        return "unknown"
