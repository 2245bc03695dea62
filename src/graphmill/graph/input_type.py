"""The types that a workflow may declare for its inputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphmill.graph.kinds import shown


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
