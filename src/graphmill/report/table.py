"""A table of short texts that fits a terminal: the same in every command that lists something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphmill.report.text import one_line

NOTHING = "–"
_GAP = "  "
_LEAST_CHARS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its title, the most characters of a cell, and whether it gives way where the table is too wide."""

    title: str
    most: int = 40
    is_number: bool = False
    can_shrink: bool = False
    is_optional: bool = False


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Draw a table under its titles. Optional columns without any value are left out.

    If it is wider than ``width``, columns that can shrink are cut, the widest first, down to eight characters.
    """
    kept = [
        at
        for at, column in enumerate(columns)
        if not column.is_optional or any(row[at] not in ("", NOTHING) for row in rows)
    ]
    shown = [columns[at] for at in kept]
    cells = [[one_line(row[at], columns[at].most) for at in kept] for row in rows]
    titles = [column.title for column in shown]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    if width is not None:
        _shrink(shown, widths, sum(widths) + len(_GAP) * (len(widths) - 1) - width)
    return [_line(shown, widths, row) for row in (titles, *cells)]


def _shrink(columns: Sequence[Column], widths: list[int], excess: int) -> None:
    while excess > 0:
        able = [at for at, column in enumerate(columns) if column.can_shrink and widths[at] > _LEAST_CHARS]
        if not able:
            return
        widest = max(able, key=lambda at: widths[at])
        widths[widest] -= 1
        excess -= 1


def _line(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> str:
    return _GAP.join(
        f"{one_line(cell, width):>{width}}" if column.is_number else f"{one_line(cell, width):<{width}}"
        for column, width, cell in zip(columns, widths, cells, strict=True)
    ).rstrip()
