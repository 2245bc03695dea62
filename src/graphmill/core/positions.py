"""Positions in text files: line and column as editors count them, and problems found there."""

from __future__ import annotations

from dataclasses import dataclass


class TextError(ValueError):
    """A text that can not be read, and where: line and column count from 1."""

    def __init__(self, reason: str, *, line: int, column: int) -> None:
        self.reason = reason
        self.line = line
        self.column = column
        super().__init__(f"line {line}, column {column}: {reason}")


def place(text: bytes, offset: int, *, first_line: int = 1) -> tuple[int, int]:
    """Give line and column of the byte at ``offset``, for a text whose first line has this number in its file."""
    line_start = text.rfind(b"\n", 0, offset) + 1
    return first_line + text.count(b"\n", 0, offset), len(text[line_start:offset].decode(errors="replace")) + 1


def text_place(text: str, offset: int) -> tuple[int, int]:
    """Give line and column of the character at ``offset``."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, or worth knowing, and where; line and column are 0 where there is no text to point into."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        """Give 'file:line:column: message', as editors and terminals make links of it."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.message}"
