"""Failures that are alike, counted together in bounded memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

from graphmill.core.result import Failure

_MOST_GROUPS = 100
_NUMBERS = re.compile(r"\d+")
_OTHERS = "(other messages)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroup:
    """Failures of one kind whose messages differ at most in their numbers; ``message`` is the first one's."""

    kind: str
    message: str
    count: int


class ErrorGroups:
    """Sorts failures into groups as they come; beyond a hundred groups, those of one kind are one."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, failure: Failure) -> None:
        """Count one failure."""
        key = (str(failure.kind), _NUMBERS.sub("#", failure.message[:400])[:200])
        message = failure.message
        if key not in self._first and len(self._first) >= _MOST_GROUPS:
            key, message = (str(failure.kind), _OTHERS), _OTHERS
        self._first.setdefault(key, message)
        self._counts[key] = self._counts.get(key, 0) + 1

    def largest_first(self) -> tuple[ErrorGroup, ...]:
        """List the groups."""
        groups = [
            ErrorGroup(kind=key[0], message=message, count=self._counts[key]) for key, message in self._first.items()
        ]
        return tuple(sorted(groups, key=lambda group: -group.count))
