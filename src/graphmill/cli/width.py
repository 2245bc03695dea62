"""How wide the terminal is, and how lines are made to fit it; what goes elsewhere than to a terminal is left as it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from textwrap import wrap
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
            indent = " " * _indent(line, width)
            yield from wrap(line, width, subsequent_indent=indent, break_on_hyphens=False, replace_whitespace=False, expand_tabs=False)


def _indent(line: str, width: int) -> int:
    """Tell where the last column begins that leaves room for itself; without columns, a little more than the line is indented."""
    margin = len(line) - len(line.lstrip())
    gap = line.rfind(_GAP, margin, width // 2)
    return margin + 2 if gap < 0 else gap + len(_GAP)
