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
from graphmill.graph.langgraph.observing import Saving, Updates, fingerprints_of, saving_of, shorten_notes
from graphmill.graph.langgraph.usage import CallUsage
from graphmill.graph.run.step import plain

PACKAGES = ("langgraph", "langgraph-checkpoint", "langchain-core")
_NO_CONFIG: Mapping[str, Any] = {}
_SCALARS = (str, bytes, int, float, list, tuple, Set, type(None))
_MAX_KEYS = 10
_MARK = "graphmill_input"
_ID_CHARS = 8
_INTERRUPT = "__interrupt__"


class LangGraph(AdaptedGraph):
    """Runs a compiled graph over one item; the output is its final state as JSON."""

    library = "LangGraph"
    packages = PACKAGES

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    async def __call__(self, item: Any) -> Any:
        """Run the graph with an item as its input and its own config."""
        return await self.run(item)

    async def run(self, given: Any, config: Mapping[str, Any] = _NO_CONFIG) -> Any:
        """Run the graph with this config in addition to its own."""
        state = given_state(self.graph, given)
        thread = Thread(self.graph, self._saving, find_context(), config=fresh(config), given=given)
        return plain_state(await thread.run(state))

    @cached_property
    def _saving(self) -> Saving | None:
        return saving_of(self.graph)

    @property
    def name(self) -> str:
        """The name that its author gave it, else its name in its module."""
        own = str(self.graph.get_name())
        if own == "LangGraph" and self.home is not None:
            return self.home.partition(":")[2]
        return own

    @cached_property
    def home(self) -> str | None:
        """The ``module:name`` by which another process can import it; None if there is none."""
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
        """The fingerprint of each part: the nodes with their code, their order, and the state."""
        return fingerprints_of(self.graph)

    def __repr__(self) -> str:
        return f"<LangGraph {self.name!r}: nodes {', '.join(name for name in self.graph.nodes if name != '__start__')}>"


def adapt(graph: Any) -> LangGraph:
    """Make a compiled graph callable; UsageError for anything else."""
    from langgraph.pregel import Pregel  # noqa: PLC0415  whoever has such a graph has imported it

    if not isinstance(graph, Pregel):
        remedy = "compile it first: graph.compile()" if hasattr(graph, "compile") else "pass a compiled graph"
        raise UsageError(f"cannot run LangGraph's {type(graph).__name__}; {remedy}")
    if stops := [*graph.interrupt_before_nodes, *graph.interrupt_after_nodes]:
        raise UsageError(
            "the LangGraph graph has debugging stops (interrupt_before, interrupt_after: "
            f"{', '.join(map(str, stops))}); compile it without them; to ask a question, call interrupt() in a node"
        )
    saving_of(graph)  # raises for a checkpointer that no item could use
    return LangGraph(graph)


def given_state(graph: Any, item: Any) -> Any:
    """Return the input state of an item: a mapping as it is, anything else only if the graph's state has no keys."""
    if isinstance(item, Mapping):
        return dict(item)
    if _has_keys(graph) and isinstance(item, _SCALARS):
        keys = _input_keys(graph)
        raise Permanent(
            f"the LangGraph graph takes a mapping, got {type(item).__name__}; "
            f"write {{{keys[0]!r}: …}}; the keys of its input: {', '.join(map(repr, keys[:_MAX_KEYS]))}"
        )
    return item


def plain_state(state: Any) -> Any:
    """Return a state as JSON; Permanent names the key whose value is not JSON."""
    if not isinstance(state, dict):
        return plain(state)
    return {str(key): _plain(key, value) for key, value in state.items()}


def _plain(key: Any, value: Any) -> Any:
    try:
        return plain(value)
    except Permanent as error:
        reason = str(error).removeprefix("the output is not JSON: ")
        raise Permanent(
            f"the state's {key!r} is not JSON: {reason}; remove it from the graph's output schema"
        ) from error


def _has_keys(graph: Any) -> bool:
    """Return whether a graph's state has keys: a StateGraph over a single value and a functional graph have none."""
    if hasattr(graph, "builder"):
        return "__root__" not in graph.channels
    return not isinstance(graph.input_channels, str)


def _input_keys(graph: Any) -> list[str]:
    if hasattr(graph, "builder"):
        return list(graph.builder.schemas[graph.builder.input_schema]) or ["…"]
    return list(graph.input_channels)


class Thread:
    """LangGraph's thread for one item, named by run, item and generation; every attempt of these finds it.

    Its checkpoints are marked with its input and its run: an edited input starts another thread, and so does another
    run with the same name.
    """

    def __init__(
        self, graph: Any, saving: Saving | None, context: AttemptContext | None, *, config: dict[str, Any], given: Any
    ) -> None:
        self._graph = graph
        self._saving = saving
        self._context = context
        self._config = config
        self._content = ""
        if saving is not None:
            self._content = _content(given, "" if context is None else context.origin)
        if context is not None:
            self._config = _with_thread(config, context.address, self._content)
        self._updates = Updates(context)
        self._usage = CallUsage(context)

    async def run(self, state: Any) -> Any:
        """Return the final state; nodes that LangGraph has finished are not run again."""
        self._usage.ignore_all(state)
        try:
            with self._usage.collecting():
                return await self._run(state)
        except Exception as error:
            shorten_notes(error)
            raise

    async def _run(self, state: Any) -> Any:
        known = None
        if self._saving is not None and self._context is not None:
            known = await self._find_state(self._context)
        if known is None:
            result = await self._stream(state)
        elif known.interrupts:
            result = await self._answer(known.interrupts)
        else:
            result = await self._stream(None)
        while result.interrupts:
            result = await self._answer(result.interrupts)
        return result.state

    async def _answer(self, interrupts: Sequence[Any]) -> _StreamResult:
        """Ask the graph's questions and continue with the answers; without them the attempt ends here."""
        from langgraph.types import Command  # noqa: PLC0415  whoever has such a graph has imported it

        context = self._context
        if self._saving is None or context is None:
            raise Permanent("the LangGraph graph calls interrupt(), which needs a checkpointer; compile it with one")
        answers, waiting = {}, None
        for each in interrupts:
            try:
                answers[each.id] = await context.ask(each.value, _name(each))
            except Waiting as error:
                waiting = error
        if waiting is not None:
            raise waiting
        return await self._stream(Command(resume=answers))

    async def _find_state(self, context: AttemptContext) -> Any:
        """Return the checkpointer's state of this thread; None if there is none."""
        for address in (context.address, f"{context.address}/{self._content}"):
            self._config = _with_thread(self._config, address, self._content)
            found = await self._get_state()
            if found.metadata is None:
                return None
            if found.metadata.get(_MARK) == self._content:
                self._updates.go_on()
                self._usage.ignore_all(found.values)
                for each in found.interrupts:
                    context.repeat_last_question(_name(each))
                return found
        return None

    async def _get_state(self) -> Any:
        if self._saving == "async":
            return await self._graph.aget_state(self._config)
        return await call(self._graph.get_state, self._config)

    async def _stream(self, given: Any) -> _StreamResult:
        reading = _StreamResult(self._updates, self._usage)
        modes = ["values"]
        if self._context is not None:
            modes = ["tasks", "values"]
        options: dict[str, Any] = {"stream_mode": modes, "output_keys": self._graph.output_channels}
        if self._saving is not None:
            options["durability"] = "sync"
        if self._saving == "plain":
            loop = asyncio.get_running_loop()

            def take(chunk: Any) -> None:
                loop.call_soon_threadsafe(reading.take, chunk)

            await call(_drain, self._graph, given, self._config, options, take)
            return reading
        async with aclosing(self._graph.astream(given, self._config, **options)) as chunks:
            async for chunk in chunks:
                reading.take(chunk)
        return reading


class _StreamResult:
    """What a stream has returned so far: the newest state, and the graph's questions."""

    def __init__(self, updates: Updates, usage: CallUsage) -> None:
        self._updates = updates
        self._usage = usage
        self.state: Any = None
        self.interrupts: list[Any] = []

    def take(self, chunk: tuple[str, Any]) -> None:
        """Add one chunk."""
        mode, value = chunk
        if mode == "tasks":
            self._updates.take(value)
            self._usage.add_all(value.get("result"))
            self._usage.report()
        elif isinstance(value, dict) and _INTERRUPT in value:
            self.interrupts += value[_INTERRUPT]
        else:
            self.state = value


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
    except (TypeError, ValueError, RecursionError):  # it cannot be compared
        body = b"unknown"
    return digest(origin.encode() + b"\n" + body).hex()
