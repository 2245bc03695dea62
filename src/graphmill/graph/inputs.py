"""Inputs of a graph: their types, the binding of items, and the check of a whole source before a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import Permanent, UsageError
from graphmill.core.json import fresh, to_json
from graphmill.core.suggest import suggestion
from graphmill.graph.language.grammar import shown

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph, Input

_DEFAULT_CHARS = 40


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_HOLDS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray),
    "object": lambda value: isinstance(value, Mapping),
    "any": lambda value: True,  # noqa: ARG005
}

_MOST_READ = 1000

INPUT_TYPES = tuple(_HOLDS)


def is_of_type(value: Any, name: str | None) -> bool:
    """Tell whether a value is of a declared type; without one, everything is."""
    return name is None or _HOLDS[name](value)


def type_problem(value: Any, name: str) -> str:
    """Say what was wanted and what was found."""
    article = "an" if name[0] in "aio" else "a"
    return f"{article} {name} is wanted, not {'null' if value is None else shown(value)}{_remedy(value, name)}"


def _remedy(value: Any, name: str) -> str:
    """Say what to do with text that reads as what is wanted, as all that comes out of a CSV file is text."""
    try:
        is_meant = isinstance(value, str) and len(value) <= _MOST_READ and is_of_type(json.loads(value), name)
    except (ValueError, RecursionError):
        return ""
    return (
        ", which is text, as all values of a CSV file are; give the items as JSON Lines, or leave out the type"
        if is_meant
        else ""
    )


class Binding:
    """A mapping gives the inputs it holds, any other item is the only open one."""

    __slots__ = ("_defaults", "_given", "_names", "_open", "_typed")

    def __init__(self, graph: Graph) -> None:
        self._names = graph.inputs.keys()
        self._given = dict(graph.given)
        self._open = [each.name for each in graph.inputs.values() if each.is_required and each.name not in graph.given]
        self._typed = [each for each in graph.inputs.values() if each.type is not None]
        self._defaults = {each.name: each.default for each in graph.inputs.values() if not each.is_required}

    def bind(self, item: Any) -> dict[str, Any]:
        """Give the inputs of one job by name; Permanent says which one is missing, or of a wrong type."""
        found = self._found(item)
        for each in self._typed:
            if each.name in found and (problem := each.problem(found[each.name])):
                raise Permanent(f"input {each.name!r}: {problem}")
        if (
            self._defaults or self._given
        ):  # fresh: what a caller changes in one job's output must not change for the next
            found = {**fresh(self._defaults), **found, **fresh(self._given)}
        if len(found) < len(self._names):
            missing = ", ".join(name for name in self._names if name not in found)
            raise Permanent(f"the item lacks the required input {missing}; it has {_held(item)}")
        return found

    def _found(self, item: Any) -> dict[str, Any]:
        if type(item) is dict or isinstance(item, Mapping):
            return {name: item[name] for name in self._names if name in item and name not in self._given}
        if len(self._open) == 1:
            return {self._open[0]: item}
        raise Permanent(
            f"the item is {type(item).__name__}, not a mapping, and the workflow has {len(self._open)} required inputs to bind it to"
        )


def _held(item: Any) -> str:
    return (", ".join(map(str, item)) or "nothing") if isinstance(item, Mapping) else type(item).__name__


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
