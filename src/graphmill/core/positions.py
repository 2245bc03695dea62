"""Positions in text files: line and column as editors count them, and problems found there."""

from __future__ import annotations

from dataclasses import dataclass


class TextError(ValueError):
    """A text cannot be read; line and column count from 1."""

    def __init__(self, reason: str, *, line: int, column: int) -> None:
        self.reason = reason
        self.line = line
        self.column = column
        super().__init__(f"line {line}, column {column}: {reason}")


def place(text: bytes, offset: int, *, first_line: int = 1) -> tuple[int, int]:
    """Return line and column of the byte at ``offset``; the text begins on ``first_line`` of its file."""
    line_start = text.rfind(b"\n", 0, offset) + 1
    return first_line + text.count(b"\n", 0, offset), len(text[line_start:offset].decode(errors="replace")) + 1


def text_place(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of the character at ``offset``."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A problem, or a note, and its position; line and column are 0 if there is no text."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        """Return file:line:column: message, which editors and terminals turn into a link."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.message}"
