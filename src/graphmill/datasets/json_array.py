"""JSON: one array of items. Read whole, written row by row."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, BinaryIO

from graphmill.core.json import from_json, json_bytes
from graphmill.datasets.row import Row


def read(stream: BinaryIO) -> Generator[Any, None, None]:
    """Read the array."""
    text = stream.read()
    try:
        data = from_json(text)
    except ValueError as error:
        if "Extra data" in str(error):
            raise ValueError(f"{error}; for one item per line use .jsonl, or --source-format jsonl") from error
        raise
    yield from require_array(data)


def require_array(data: Any) -> list[Any]:
    """Refuse a document that is not a list of items."""
    if not isinstance(data, list):
        raise ValueError(
            f"the document is one {type(data).__name__}, not a list of items; for one item per line use .jsonl"
        )
    return data


class Writer:
    """An array with one row per line."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._before = b"[\n"

    def write(self, row: Row) -> None:
        """Append a row."""
        self._stream.write(self._before + json_bytes(row))
        self._before = b",\n"

    def finish(self) -> None:
        """Close the array."""
        self._stream.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")

    def discard(self) -> None:
        """Nothing is held beside the stream."""
