"""Secrets: param values that stand in the environment, named in a workflow and never kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graphmill.core.errors import Permanent

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Secret:
    """Stands for a variable of the environment, which is read at the attempt; it holds no value."""

    name: str

    @property
    def is_named_well(self) -> bool:
        """Whether a variable can have this name."""
        return _VARIABLE.fullmatch(self.name) is not None


def names_secret(value: Mapping[Any, Any]) -> bool:
    """Tell whether a mapping is ``{env: NAME}``."""
    return len(value) == 1 and isinstance(value.get("env"), str)


def with_secrets(value: Any) -> Any:
    """Put a Secret for each ``{env: NAME}`` at any depth; what holds none is given back as it is."""
    if isinstance(value, Mapping):
        if names_secret(value):
            return Secret(value["env"])
        made = {key: with_secrets(entry) for key, entry in value.items()}
        return made if any(made[key] is not entry for key, entry in value.items()) else value
    if isinstance(value, list | tuple):
        entries = [with_secrets(entry) for entry in value]
        return entries if any(new is not old for new, old in zip(entries, value, strict=True)) else value
    return value


def revealed(value: Any) -> Any:
    """Put the values of the environment in the place of secrets; Permanent names a variable that is not set."""
    if isinstance(value, Secret):
        found = os.environ.get(value.name)
        if found is None:
            raise Permanent(
                f"the environment has no {value.name}; set it before the run: {{env: {value.name}}} is read at each attempt"
            )
        return found
    if isinstance(value, Mapping):
        return {key: revealed(entry) for key, entry in value.items()}
    return [revealed(entry) for entry in value] if isinstance(value, list) else value


def secrets_in(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Secret]]:
    """Give each Secret in a value, with the way to it."""
    if isinstance(value, Secret):
        yield at, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from secrets_in(entry, (*at, key))
    elif isinstance(value, list | tuple):
        for number, entry in enumerate(value):
            yield from secrets_in(entry, (*at, number))
