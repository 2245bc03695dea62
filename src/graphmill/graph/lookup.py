"""Plain ``${name}`` lookups: a name, or a path of names through mappings. No calls, no operators, one pass."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from graphmill.core.errors import Permanent
from graphmill.core.json_text import to_json

_REFERENCE = re.compile(r"\$\{([A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)\}")


def references(value: Any) -> set[str]:
    """Collect the root names that a value looks up."""
    if isinstance(value, str):
        return {path.split(".")[0] for path in _REFERENCE.findall(value)}
    entries = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return {name for entry in entries for name in references(entry)}


def malformed(value: Any) -> list[str]:
    """List the texts that begin a lookup and are none."""
    if isinstance(value, str):
        return [value] if "${" in _REFERENCE.sub("", value) else []
    entries = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [text for entry in entries for text in malformed(entry)]


def resolve(value: Any, scope: Mapping[str, Any]) -> Any:
    """Replace every lookup. A string that is one lookup keeps the value's type; in mixed text it becomes text."""
    if isinstance(value, str):
        whole = _REFERENCE.fullmatch(value)
        return _look_up(whole[1], scope) if whole else _REFERENCE.sub(lambda match: _text(_look_up(match[1], scope)), value)
    if isinstance(value, Mapping):
        return {key: resolve(entry, scope) for key, entry in value.items()}
    if isinstance(value, list):
        return [resolve(entry, scope) for entry in value]
    return value


def _look_up(path: str, scope: Mapping[str, Any]) -> Any:
    value: Any = scope
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            there = ", ".join(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
            raise Permanent(f"${{{path}}} is missing: no {name!r} among: {there}")
        value = value[name]
    return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value)
