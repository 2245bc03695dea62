"""What is wrong with the inputs that somebody gives for a job, all at once, and which ones there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import Permanent, UsageError
from graphmill.core.json import to_json
from graphmill.core.suggest import suggestion
from graphmill.graph.binding import Binding

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph, Input

_DEFAULT_CHARS = 40


def require_inputs(graph: Graph, given: Any) -> None:
    """Refuse what can not be the inputs of one job; UsageError names every mistake and what is declared."""
    problems = list(_of_mapping(graph, given) if isinstance(given, Mapping) else _of_value(graph, given))
    if problems:
        raise UsageError(
            "\n".join(
                [
                    f"workflow {graph.name!r} can not run with these inputs:",
                    *(f"  {each}" for each in problems),
                    declared(graph),
                ]
            )
        )


def declared(graph: Graph) -> str:
    """Say which inputs a workflow takes."""
    told = ", ".join(f"{each.name} ({_told(each)})" for each in graph.inputs.values() if each.name not in graph.given)
    return f"it takes {told}" if told else "it takes no inputs"


def _told(each: Input) -> str:
    standing = "required" if each.is_required else f"default {to_json(each.default):.{_DEFAULT_CHARS}}"
    return f"{each.type}, {standing}" if each.type else standing


def _of_mapping(graph: Graph, given: Mapping[Any, Any]) -> Iterator[str]:
    for name, value in given.items():
        if name not in graph.inputs:
            yield f"no input {name!r:.80}{suggestion(str(name), graph.inputs)}"
        elif problem := graph.inputs[name].problem(value):
            yield f"input {name!r}: {problem}"
    for each in graph.inputs.values():
        if each.is_required and each.name not in given and each.name not in graph.given:
            yield f"input {each.name!r} is missing"


def _of_value(graph: Graph, given: Any) -> Iterator[str]:
    try:
        Binding(graph).bind(given)
    except Permanent as error:
        yield str(error)
