"""What has changed between two sets of fingerprints, part by part."""

from __future__ import annotations

from collections.abc import Mapping

ORDER = "order"


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Tell in words what has changed; nothing, if nothing has."""
    gone = [f"{part} is gone" for part in before if part not in now and part != ORDER]
    new = [f"{part} is new" for part in now if part not in before and part != ORDER]
    other = [f"{part} changed" for part in now if part in before and part != ORDER and before[part] != now[part]]
    # Nodes that come or go change the order by themselves.
    is_reordered = before.get(ORDER) != now.get(ORDER) and _nodes(before) == _nodes(now)
    return [*other, *new, *gone, *(["the order of the nodes changed"] if is_reordered else [])]


def _nodes(parts: Mapping[str, str]) -> set[str]:
    return {part for part in parts if part.startswith("node ")}
