"""A compiled LangGraph graph as what a batch calls with each item: one step, in a thread of LangGraph's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.core.foreign import AdaptedGraph
from graphmill.core.json import fresh
from graphmill.engine.frame import frame_here
from graphmill.graph.langgraph.fingerprints import fingerprints_of
from graphmill.graph.langgraph.saver import Saving, saving_of
from graphmill.graph.langgraph.state import given_state, plain_state
from graphmill.graph.langgraph.thread import Thread

PACKAGES = ("langgraph", "langgraph-checkpoint", "langchain-core")
_NO_CONFIG: Mapping[str, Any] = {}


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
        thread = Thread(self.graph, self._saving, frame_here(), config=fresh(config), given=given)
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
