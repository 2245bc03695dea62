"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean …?)" for the nearest known name, or an empty text."""
    near = get_close_matches(name, list(known), n=1)
    return f" (did you mean {str(near[0])!r}?)" if near else ""  # for an enum its value


def file_suggestion(path: Path) -> str:
    """Return the same for a missing file: the nearest name in its folder."""
    try:
        return suggestion(path.name, [entry.name for entry in path.parent.iterdir()])
    except OSError:
        return ""
