"""The langgraph node: a compiled LangGraph graph, named by module and name, as one step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from graphmill.core.errors import UsageError
from graphmill.core.foreign import adapt_graph
from graphmill.core.json import fresh
from graphmill.graph.langgraph.adapter import PACKAGES, LangGraph
from graphmill.graph.named import find_named
from graphmill.graph.node_type import Context, NodeType, ParamError, Site


class LangGraphConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """LangGraph's run config."""

    recursion_limit: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="The most steps the graph may take.")
    ] = None
    configurable: Annotated[dict[str, Any], Meta(description="Values for its nodes to read from their config.")] = {}
    tags: Annotated[list[str], Meta(description="Tags for its traces.")] = []
    metadata: Annotated[dict[str, Any], Meta(description="Metadata for its traces and checkpoints.")] = {}


class LangGraphParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The graph, and its input."""

    graph: Annotated[str, Meta(description="`module:name` of a compiled graph; modules are found as for `python`.")]
    input: Annotated[
        Any, Meta(description="The input state: a mapping, unless the graph's state is a single value.")
    ] = {}
    config: Annotated[
        LangGraphConfig | None, Meta(description="Merged into the graph's own config. The thread id is the step's.")
    ] = None


class LangGraphNode(NodeType[LangGraphParams]):
    """Runs the graph on the event loop, with its own checkpointer if it has one."""

    name = "langgraph"
    summary = "Runs a compiled LangGraph graph; needs `pip install graphmill[langgraph]`."
    Params = LangGraphParams
    outputs: ClassVar[Mapping[str, str]] = {
        "state": "the final state as JSON data: messages and models become mappings"
    }
    untemplated = frozenset({"graph"})
    packages = PACKAGES
    example = """\
- id: answer
  type: langgraph
  params:
    graph: agents:support
    input: {messages: [{role: user, content: "${item.question}"}]}
    config: {recursion_limit: 40}
"""

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Import the graph, so that a wrong name is found before the first item."""
        try:
            _graph(params["graph"], site.root)
        except (ValueError, UsageError) as error:
            raise ParamError(str(error), at=("graph",)) from error

    def actions(self, params: Mapping[str, Any]) -> Collection[str]:
        """Return the only action."""
        del params
        return ("default",)

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Return those of all parts of the graph."""
        return " ".join(_found(params["graph"]).fingerprints.values())

    async def run(self, params: LangGraphParams, context: Context) -> Mapping[str, Any]:
        """Run the graph with a copy of the input."""
        del context
        config = (
            {}
            if params.config is None
            else {name: value for name, value in msgspec.structs.asdict(params.config).items() if value}
        )
        return {"state": await _found(params.graph).run(fresh(params.input), config)}


@cache
def _found(name: str) -> LangGraph:
    return _graph(name, None)


def _graph(name: object, root: Path | None) -> LangGraph:
    if find_spec("langgraph") is None:
        raise ValueError("LangGraph is not installed: pip install graphmill[langgraph]")
    found = adapt_graph(find_named(name, root))
    if not isinstance(found, LangGraph):
        raise ValueError(f"{name} is not a compiled LangGraph graph but {type(found).__name__}")
    return found
