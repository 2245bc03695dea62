"""Where in a text something stands, as editors count."""

from __future__ import annotations


def place(text: bytes, offset: int, *, first_line: int = 1) -> str:
    """Give 'line L, column C' of the byte at ``offset``, for a text whose first line has this number in its file."""
    line_start = text.rfind(b"\n", 0, offset) + 1
    line = first_line + text.count(b"\n", 0, offset)
    return f"line {line}, column {len(text[line_start:offset].decode(errors='replace')) + 1}"
