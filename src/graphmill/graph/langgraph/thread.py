"""One graph's work on one input, in a thread of LangGraph's: begun, or gone on with where its checkpointer left it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

from graphmill.core.errors import Permanent
from graphmill.core.json import canonical, digest
from graphmill.engine.frame import Frame
from graphmill.engine.question import ASK, Waiting
from graphmill.engine.workers import call
from graphmill.graph.langgraph.node_error import place
from graphmill.graph.langgraph.saver import Saving
from graphmill.graph.langgraph.updates import Updates

_MARK = "graphmill_input"
_ID_CHARS = 8
_INTERRUPT = "__interrupt__"


class Thread:
    """Goes by its run, item and generation, so that every attempt of that generation finds it again.

    What it was given, and by which run, is marked in its checkpoints: an input that was edited meanwhile begins another thread, and so does
    a run that has only the name of an earlier one.
    """

    def __init__(
        self, graph: Any, saving: Saving | None, frame: Frame | None, *, config: dict[str, Any], given: Any
    ) -> None:
        self._graph = graph
        self._saving = saving
        self._frame = frame
        self._config = config
        self._content = "" if saving is None else _content(given, "" if frame is None else frame.origin)
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
        known = None if self._saving is None or self._frame is None else await self._known(self._frame)
        if known is None:
            reading = await self._streamed(state)
        else:
            reading = await self._answered(known.interrupts) if known.interrupts else await self._streamed(None)
        while reading.interrupts:
            reading = await self._answered(reading.interrupts)
        return reading.state

    async def _answered(self, interrupts: Sequence[Any]) -> _Reading:
        """Ask what the graph has asked, and go on with the answers; without them the attempt ends here."""
        from langgraph.types import Command  # noqa: PLC0415  whoever has such a graph has imported it

        frame = self._frame
        if self._saving is None or frame is None:
            remedy = "can not wait for an answer without a checkpointer; compile it with one"
            raise Permanent(f"the LangGraph graph asks something (interrupt) and {remedy}")
        answers, waiting = {}, None
        for each in interrupts:
            try:
                answers[each.id] = await frame.ask(each.value, _name(each))
            except Waiting as error:
                waiting = error
        if waiting is not None:
            raise waiting
        return await self._streamed(Command(resume=answers))

    async def _known(self, frame: Frame) -> Any:
        """Find what the checkpointer has of this thread; None if that is nothing."""
        for address in (frame.address, f"{frame.address}/{self._content}"):
            self._config = _with_thread(self._config, address, self._content)
            found = await self._asked("get_state")
            if found.metadata is None:
                return None
            if found.metadata.get(_MARK) == self._content:
                self._updates.go_on()
                for each in found.interrupts:
                    frame.ask_on(_name(each))
                return found
        return None

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
            await call(
                _drain,
                self._graph,
                given,
                self._config,
                options,
                lambda chunk: loop.call_soon_threadsafe(reading.take, chunk),
            )
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


def _name(interrupt: Any) -> str:
    return f"{ASK}#{interrupt.id[:_ID_CHARS]}"


def _drain(
    graph: Any, given: Any, config: dict[str, Any], options: dict[str, Any], take: Callable[[Any], object]
) -> None:
    for chunk in graph.stream(given, config, **options):
        take(chunk)


def _with_thread(config: dict[str, Any], address: str, content: str) -> dict[str, Any]:
    marks = {_MARK: content} if content else {}
    return {
        **config,
        "configurable": {**config.get("configurable", {}), "thread_id": address},
        "metadata": {**config.get("metadata", {}), **marks},
    }


def _content(given: Any, origin: str) -> str:
    try:
        body = canonical(given)
    except (TypeError, ValueError, RecursionError):  # that it is still the same can not be told
        body = b"unknown"
    return digest(origin.encode() + b"\n" + body).hex()
