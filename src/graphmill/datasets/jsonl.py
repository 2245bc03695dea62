"""JSON Lines: one item per line, split on the newline and on nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from graphmill.core.json_text import to_json
from graphmill.datasets.row import Row


def read(stream: BinaryIO) -> Iterator[Any]:
    """Read item by item; blank lines are passed over."""
    for number, line in enumerate(stream, start=1):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if text.isspace() or not text:
            continue
        try:
            yield json.loads(text)
        except ValueError as error:
            column = f", column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            raise ValueError(f"line {number}{column}: not JSON: {getattr(error, 'msg', error)}") from error


def count(stream: BinaryIO) -> int:
    """Count the items without reading them."""
    return sum(1 for line in stream if not line.isspace())


class Writer:
    """One row per line."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, row: Row) -> None:
        """Append a row."""
        self._stream.write(to_json(row).encode() + b"\n")

    def finish(self) -> None:
        """Nothing stands after the last row."""

    def discard(self) -> None:
        """Nothing is held beside the stream."""
