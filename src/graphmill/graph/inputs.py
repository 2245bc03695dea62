"""Inputs of a graph: their types, how an item is bound to them, and the check of inputs given for one job."""

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

_MAX_READ_CHARS = 1000

INPUT_TYPES = tuple(_HOLDS)


def is_of_type(value: Any, name: str | None) -> bool:
    """Return whether a value has a declared type; None is any type."""
    return name is None or _HOLDS[name](value)


def type_problem(value: Any, name: str) -> str:
    """Say which type is expected, what was found, and what to do."""
    article = "an" if name[0] in "aio" else "a"
    found = "null" if value is None else shown(value)
    return f"must be {article} {name}, got {found}{_remedy(value, name)}"


def _remedy(value: Any, name: str) -> str:
    """Say what to do about text that reads as the right type: all values of a CSV file are text."""
    try:
        is_readable = isinstance(value, str) and len(value) <= _MAX_READ_CHARS and is_of_type(json.loads(value), name)
    except (ValueError, RecursionError):
        return ""
    if not is_readable:
        return ""
    return " as text, as all values of a CSV file are; use JSON Lines, or remove the type"


class Binding:
    """Binds items to the inputs of a graph: a mapping by name, any other item as the only required input."""

    __slots__ = ("_defaults", "_given", "_names", "_open", "_typed")

    def __init__(self, graph: Graph) -> None:
        self._names = graph.inputs.keys()
        self._given = dict(graph.given)
        self._open = [each.name for each in graph.inputs.values() if each.is_required and each.name not in graph.given]
        self._typed = [(each, _HOLDS[each.type]) for each in graph.inputs.values() if each.type is not None]
        self._defaults = {each.name: each.default for each in graph.inputs.values() if not each.is_required}

    def bind(self, item: Any) -> dict[str, Any]:
        """Return the inputs of one job by name; Permanent says which one is missing or has the wrong type."""
        found = self._found(item)
        for each, holds in self._typed:
            if each.name not in found or holds(found[each.name]):
                continue
            if problem := each.problem(found[each.name]):
                raise Permanent(f"input {each.name!r}: {problem}")
        if self._defaults or self._given:
            # Fresh copies: what a caller changes in one job's output must not change for the next job.
            found = {**fresh(self._defaults), **found, **fresh(self._given)}
        if len(found) < len(self._names):
            missing = ", ".join(name for name in self._names if name not in found)
            raise Permanent(f"the item lacks the required input {missing}; it has {_keys(item)}")
        return found

    def _found(self, item: Any) -> dict[str, Any]:
        if type(item) is dict or isinstance(item, Mapping):
            return {name: item[name] for name in self._names if name in item and name not in self._given}
        if len(self._open) == 1:
            return {self._open[0]: item}
        raise Permanent(
            f"the item must be a mapping, got {type(item).__name__}; other items need a workflow with one required "
            f"input, and this one has {len(self._open)}"
        )


def _keys(item: Any) -> str:
    if isinstance(item, Mapping):
        return ", ".join(map(str, item)) or "nothing"
    return type(item).__name__


def require_inputs(graph: Graph, given: Any) -> None:
    """Check the inputs given for one job; UsageError lists every mistake, and the declared inputs."""
    check = _mapping_problems if isinstance(given, Mapping) else _value_problems
    problems = list(check(graph, given))
    if problems:
        lines = [f"workflow {graph.name!r} cannot run with these inputs:", *(f"  {each}" for each in problems)]
        raise UsageError("\n".join([*lines, declared_inputs(graph)]))


def declared_inputs(graph: Graph) -> str:
    """Say which inputs a workflow takes."""
    inputs = [f"{each.name} ({_described(each)})" for each in graph.inputs.values() if each.name not in graph.given]
    if not inputs:
        return "it takes no inputs"
    return f"it takes {', '.join(inputs)}"


def _described(each: Input) -> str:
    text = "required"
    if not each.is_required:
        text = f"default {to_json(each.default):.{_DEFAULT_CHARS}}"
    return f"{each.type}, {text}" if each.type else text


def _mapping_problems(graph: Graph, given: Mapping[Any, Any]) -> Iterator[str]:
    for name, value in given.items():
        if name not in graph.inputs:
            yield f"no input {name!r:.80}{suggestion(str(name), graph.inputs)}"
        elif problem := graph.inputs[name].problem(value):
            yield f"input {name!r}: {problem}"
    for each in graph.inputs.values():
        if each.is_required and each.name not in given and each.name not in graph.given:
            yield f"input {each.name!r} is missing"


def _value_problems(graph: Graph, given: Any) -> Iterator[str]:
    try:
        Binding(graph).bind(given)
    except Permanent as error:
        yield str(error)
