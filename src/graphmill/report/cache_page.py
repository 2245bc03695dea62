"""A cache of answers for the reader: how many there are of each model, how large, and how old."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphmill.journal.sqlite.cache_file import Holding
from graphmill.report.run_view import instant
from graphmill.report.text import columns, counted, shown, size

_MODEL_CHARS = 36
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def cache_lines(path: Path, holdings: Sequence[Holding], *, now: float) -> list[str]:
    """Show what is kept, one line for each model, that fits 80 columns."""
    if not holdings:
        return [none_here(path)]
    head = ("model", "answers", "size", "oldest", "last used")
    ages = [(age(now - each.oldest_at), age(now - each.used_at)) for each in holdings]
    rows = [
        (shown(each.model, _MODEL_CHARS), f"{each.answers:,}", size(each.bytes), *ages[at])
        for at, each in enumerate(holdings)
    ]
    total = sum(each.answers for each in holdings)
    return [*columns([head, *rows]), f"{answers(total)}, {size(sum(each.bytes for each in holdings))}, in {path}"]


def cache_record(path: Path, holdings: Sequence[Holding]) -> dict[str, Any]:
    """Give the same as data."""
    return {
        "path": str(path),
        "answers": sum(each.answers for each in holdings),
        "bytes": sum(each.bytes for each in holdings),
        "models": [
            {
                "model": each.model,
                "answers": each.answers,
                "bytes": each.bytes,
                "oldest_at": instant(each.oldest_at),
                "used_at": instant(each.used_at),
            }
            for each in holdings
        ],
    }


def none_here(path: Path) -> str:
    """Say that nothing is kept."""
    return f"no answers are kept here yet, in {path}; --journal names another place"


def answers(count: int) -> str:
    """Count answers."""
    return counted(count, "answer")


def age(value: float) -> str:
    """Write an age in one unit, as people say it: '5 min', '3 h', '12 d'."""
    for unit_s, unit in _UNITS:
        if value >= unit_s:
            return f"{value // unit_s:,.0f} {unit}"
    return "just now"
