r"""Boxed answers: what a solution in LaTeX puts into ``\boxed{}``."""

from __future__ import annotations

import re
from typing import NamedTuple

# A box with its brace or with the bare word after it, an escaped character (such as \{ or \\), a brace.
_MARKS = re.compile(
    r"\\(?:boxed|fbox)(?![A-Za-z])\s*(?:(?P<brace>\{)|(?=(?P<bare>[^\s{}$][^\s$]*)))|\\.|[{}]", re.DOTALL
)


class Box(NamedTuple):
    """Where a box begins in its text, and what is in it."""

    start: int
    content: str


def last_box(text: str) -> Box | None:
    r"""Return the last ``\boxed{…}`` or ``\boxed x``, or ``\fbox``; one that is never closed is none."""
    opened: list[re.Match[str] | None] = []  # of each open brace: its box, or None for a plain brace
    last: Box | None = None
    for mark in _MARKS.finditer(text):
        if mark["brace"]:
            opened.append(mark)
        elif mark["bare"]:
            last = Box(mark.start(), mark["bare"].rstrip("$.,"))
        elif mark[0] == "{":
            opened.append(None)
        elif mark[0] == "}":
            box = opened.pop() if opened else None
            if box is not None and (last is None or box.start() > last.start):
                last = Box(box.start(), text[box.end() : mark.start()].strip())
    return last
