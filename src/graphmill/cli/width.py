"""How wide the terminal is, and how lines are made to fit it; what goes elsewhere than to a terminal is left as it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from textwrap import TextWrapper
from typing import TextIO

_LEAST = 40
_USUAL = 80
_GAP = "   "  # between columns


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Tell how many columns there are; None where a stream, standard output if none is named, is no terminal."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return None
    try:
        found = int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(stream.fileno()).columns or _USUAL
    except (OSError, ValueError):
        found = _USUAL
    return max(found, _LEAST)


def fitted(lines: Iterable[str], stream: TextIO | None = None) -> Iterator[str]:
    """Wrap lines that are wider than the terminal, under the column that they end with."""
    width = terminal_width(stream)
    for line in lines:
        if width is None or len(line) <= width:
            yield line
        else:
            yield from _wrapped(line, width)


def _wrapped(line: str, width: int) -> list[str]:
    """Wrap the last column that leaves room for itself, by itself, so that a long word begins in it; without columns, further in."""
    margin = len(line) - len(line.lstrip())
    gap = line.rfind(_GAP, margin, width // 2)
    column = 0 if gap < 0 else gap + len(_GAP)
    further = "" if column else " " * (margin + 2)
    wrapper = TextWrapper(
        width - column, subsequent_indent=further, break_on_hyphens=False, replace_whitespace=False, expand_tabs=False
    )
    return [
        (line[:column] if number == 0 else " " * column) + part
        for number, part in enumerate(wrapper.wrap(line[column:]))
    ]
