"""How deep data may be nested: what is deeper ends readers that recurse, ours and others'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_LEVELS = 200


def is_too_deep(data: Any) -> bool:
    """Tell whether data is nested deeper than we take; data that holds itself is."""
    return _height(data, 0, {}) > MOST_LEVELS


def _height(data: Any, level: int, known: dict[int, int]) -> int:
    """Give the levels of ``data``, each container looked at once however often it is shared."""
    entries = data.values() if isinstance(data, Mapping) else data if isinstance(data, list | tuple) else None
    if entries is None:
        return 0
    if level > MOST_LEVELS:
        return MOST_LEVELS + 1
    if id(data) not in known:
        known[id(data)] = MOST_LEVELS + 1  # while it is looked at: who meets it again is inside it
        known[id(data)] = 1 + max((_height(entry, level + 1, known) for entry in entries), default=0)
    return known[id(data)]
