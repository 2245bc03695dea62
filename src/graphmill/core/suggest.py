"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

_FILE_LIKENESS = 0.75  # higher than for names, since files beside each other may be about anything


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean …?)" for the nearest known name, whatever its case, or an empty text."""
    by_lower: dict[str, str] = {}
    for each in known:
        by_lower.setdefault(str(each).lower(), str(each))  # for an enum its value
    near = get_close_matches(name.lower(), by_lower, n=1)
    return f" (did you mean {by_lower[near[0]]!r}?)" if near else ""


def file_suggestion(path: Path) -> str:
    """Return the same for a missing file: the nearest name in its folder."""
    try:
        there = list(path.parent.iterdir())
    except OSError:
        return ""
    # By stem: a common ending is no likeness.
    near = get_close_matches(path.stem, {entry.stem for entry in there}, n=1, cutoff=_FILE_LIKENESS)
    return suggestion(path.name, [entry.name for entry in there if entry.stem in near])
