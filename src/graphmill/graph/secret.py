"""Secrets: param values that stand in the environment, named in a workflow and never kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Secret:
    """Stands for a variable of the environment, which is read at the attempt; it holds no value."""

    name: str


def with_secrets(value: Any) -> Any:
    """Put a Secret for each ``{env: NAME}`` at any depth; what holds none is given back as it is."""
    if isinstance(value, Mapping):
        if len(value) == 1 and isinstance(name := value.get("env"), str) and _VARIABLE.fullmatch(name):
            return Secret(name)
        made = {key: with_secrets(entry) for key, entry in value.items()}
        return made if any(made[key] is not entry for key, entry in value.items()) else value
    if isinstance(value, list):
        entries = [with_secrets(entry) for entry in value]
        return entries if any(new is not old for new, old in zip(entries, value, strict=True)) else value
    return value


def secrets_in(value: Any) -> Iterator[str]:
    """Name the variables that a value stands for."""
    if isinstance(value, Secret):
        yield value.name
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from secrets_in(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from secrets_in(entry)
