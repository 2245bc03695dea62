"""JSON Lines: one item per line, split on the newline and on nothing else."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, BinaryIO

from graphmill.core.json import from_json, json_bytes
from graphmill.datasets.row import Row


def read(stream: BinaryIO) -> Generator[Any, None, None]:
    """Read item by item; blank lines are passed over."""
    for number, line in enumerate(stream, start=1):
        text = (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).rstrip(b"\r\n")
        if text and not text.isspace():
            yield from_json(text, first_line=number)


def count(stream: BinaryIO) -> int:
    """Count the items without reading them."""
    first = stream.readline().removeprefix(b"\xef\xbb\xbf")
    return bool(first.strip()) + sum(not line.isspace() for line in stream)


class Writer:
    """One row per line."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, row: Row) -> None:
        """Append a row."""
        self._stream.write(json_bytes(row) + b"\n")

    def finish(self) -> None:
        """Nothing stands after the last row."""

    def discard(self) -> None:
        """Nothing is held beside the stream."""
