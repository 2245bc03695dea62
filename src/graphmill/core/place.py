"""Where in a text something stands, as editors count."""

from __future__ import annotations


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
