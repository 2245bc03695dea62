"""Names that are nearly right get a suggestion."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


def suggestion(name: str, known: Iterable[str]) -> str:
    """Give ' (did you mean …?)' for the nearest known name, or nothing; a message can go on behind it."""
    near = get_close_matches(name, list(known), n=1)
    return f" (did you mean {str(near[0])!r}?)" if near else ""  # of an enum its value


def file_suggestion(path: Path) -> str:
    """Give the same for the nearest of the files beside a path that is not there."""
    try:
        return suggestion(path.name, [entry.name for entry in path.parent.iterdir()])
    except OSError:
        return ""
