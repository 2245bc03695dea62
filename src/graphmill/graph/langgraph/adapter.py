"""Runs LangGraph graphs: items as input state, threads, questions, and final state as plain JSON."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import aclosing
from functools import cached_property
from typing import Any

from graphmill.core.errors import Permanent, UsageError
from graphmill.core.foreign import AdaptedGraph
from graphmill.core.json import canonical, digest, fresh
from graphmill.engine.attempts.workers import call
from graphmill.engine.jobs.context import ASK, AttemptContext, Waiting, find_context
from graphmill.graph.langgraph.observing import Saving, Updates, fingerprints_of, place, saving_of
from graphmill.graph.run.step import plain

PACKAGES = ("langgraph", "langgraph-checkpoint", "langchain-core")
_NO_CONFIG: Mapping[str, Any] = {}
_SCALARS = (str, bytes, int, float, list, tuple, Set, type(None))
_MOST_KEYS = 10
_MARK = "graphmill_input"
_ID_CHARS = 8
_INTERRUPT = "__interrupt__"


class LangGraph(AdaptedGraph):
    """Runs a compiled graph over one item; what it gives is the final state as JSON has it."""

    library = "LangGraph"
    packages = PACKAGES

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    async def __call__(self, item: Any) -> Any:
        """Run it over an item: the item is its input, with what its own config says."""
        return await self.run(item)

    async def run(self, given: Any, config: Mapping[str, Any] = _NO_CONFIG) -> Any:
        """Run it with this config beside its own."""
        state = given_state(self.graph, given)
        thread = Thread(self.graph, self._saving, find_context(), config=fresh(config), given=given)
        return plain_state(await thread.run(state))

    @cached_property
    def _saving(self) -> Saving | None:
        return saving_of(self.graph)

    @property
    def name(self) -> str:
        """What it is called: by its author, else by the module that holds it."""
        own = self.graph.get_name()
        return self.home.partition(":")[2] if own == "LangGraph" and self.home is not None else str(own)

    @cached_property
    def home(self) -> str | None:
        """The ``module:name`` by which another process can have it; None if no module holds it, or only the program that was started."""
        started = sys.modules.get("__main__")  # multiprocessing lists it a second time, as __mp_main__
        places = (
            (module_name, name)
            for module_name, module in list(sys.modules.items())
            if module is not started
            for name, value in list(getattr(module, "__dict__", {}).items())
            if value is self.graph
        )
        return next((f"{module_name}:{name}" for module_name, name in places), None)

    @property
    def fingerprints(self) -> dict[str, str]:
        """Give the fingerprint of each part: the nodes with their code, their order, and the state."""
        return fingerprints_of(self.graph)

    def __repr__(self) -> str:
        return f"<LangGraph {self.name!r}: nodes {', '.join(name for name in self.graph.nodes if name != '__start__')}>"


def adapt(graph: Any) -> LangGraph:
    """Make a compiled graph callable; UsageError for what can not be run so."""
    from langgraph.pregel import Pregel  # noqa: PLC0415  whoever has such a graph has imported it

    if not isinstance(graph, Pregel):
        remedy = "compile it first: graph.compile()" if hasattr(graph, "compile") else "give a compiled graph"
        raise UsageError(f"{type(graph).__name__} of LangGraph can not be run; {remedy}")
    if stops := [*graph.interrupt_before_nodes, *graph.interrupt_after_nodes]:
        raise UsageError(
            f"the LangGraph graph stops at nodes for debugging (interrupt_before, interrupt_after: {', '.join(map(str, stops))}); "
            "compile it without, and call interrupt() in a node that is to ask something"
        )
    return LangGraph(graph)


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


class Thread:
    """Goes by its run, item and generation, so that every attempt of that generation finds it again.

    What it was given, and by which run, is marked in its checkpoints: an input that was edited meanwhile begins another thread, and so does
    a run that has only the name of an earlier one.
    """

    def __init__(
        self, graph: Any, saving: Saving | None, context: AttemptContext | None, *, config: dict[str, Any], given: Any
    ) -> None:
        self._graph = graph
        self._saving = saving
        self._context = context
        self._config = config
        self._content = "" if saving is None else _content(given, "" if context is None else context.origin)
        if context is not None:
            self._config = _with_thread(config, context.address, self._content)
        self._updates = Updates(context)

    async def run(self, state: Any) -> Any:
        """Give the final state; what LangGraph has finished of it is not run again."""
        try:
            return await self._finished(state)
        except Exception as error:
            place(error)
            raise

    async def _finished(self, state: Any) -> Any:
        known = None if self._saving is None or self._context is None else await self._known(self._context)
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

        context = self._context
        if self._saving is None or context is None:
            remedy = "can not wait for an answer without a checkpointer; compile it with one"
            raise Permanent(f"the LangGraph graph asks something (interrupt) and {remedy}")
        answers, waiting = {}, None
        for each in interrupts:
            try:
                answers[each.id] = await context.ask(each.value, _name(each))
            except Waiting as error:
                waiting = error
        if waiting is not None:
            raise waiting
        return await self._streamed(Command(resume=answers))

    async def _known(self, context: AttemptContext) -> Any:
        """Find what the checkpointer has of this thread; None if that is nothing."""
        for address in (context.address, f"{context.address}/{self._content}"):
            self._config = _with_thread(self._config, address, self._content)
            found = await self._asked("get_state")
            if found.metadata is None:
                return None
            if found.metadata.get(_MARK) == self._content:
                self._updates.go_on()
                for each in found.interrupts:
                    context.repeat_last_question(_name(each))
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
