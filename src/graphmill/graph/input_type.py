"""The types that a workflow may declare for its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


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
_WITH_ARTICLE = {"integer": "an integer", "array": "an array", "object": "an object"}


def is_of_type(value: Any, name: str | None) -> bool:
    """Tell whether a value is of a declared type; without one, everything is."""
    return name is None or name not in _HOLDS or _HOLDS[name](value)


def type_problem(value: Any, name: str) -> str:
    """Say what was wanted and what was found."""
    return f"{_WITH_ARTICLE.get(name, f'a {name}')} is wanted, not {_kind(value)}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    found = next((name for name in ("boolean", "integer", "number", "string", "array", "object") if _HOLDS[name](value)), None)
    if found is None:
        return type(value).__name__
    shown = f" {value!r:.40}" if isinstance(value, str | int | float) else ""
    return _WITH_ARTICLE.get(found, f"a {found}") + shown if not shown else f"the {found}{shown}"
