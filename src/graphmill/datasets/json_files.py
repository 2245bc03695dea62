"""JSON Lines, JSON and YAML: how items are read from them and rows written to them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, BinaryIO

from graphmill.core.json import from_json, json_bytes
from graphmill.core.yaml import from_yaml
from graphmill.datasets.row import Row


def read_jsonl(stream: BinaryIO) -> Generator[Any, None, None]:
    """Read item by item; lines end at a newline only, and blank ones are skipped."""
    for number, line in enumerate(stream, start=1):
        text = (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).rstrip(b"\r\n")
        if text and not text.isspace():
            yield from_json(text, first_line=number)


def count_jsonl(stream: BinaryIO) -> int:
    """Count the items without parsing them."""
    first = stream.readline().removeprefix(b"\xef\xbb\xbf")
    return bool(first.strip()) + sum(not line.isspace() for line in stream)


def read_json(stream: BinaryIO) -> Generator[Any, None, None]:
    """Read a file that holds one array of items; all of it is in memory."""
    text = stream.read()
    try:
        data = from_json(text)
    except ValueError as error:
        if "Extra data" in str(error):
            raise ValueError(f"{error}; for one item per line use .jsonl, or --source-format jsonl") from error
        raise
    yield from _require_list(data)


def read_yaml(stream: BinaryIO) -> Generator[Any, None, None]:
    """Read a file that holds one list of items; an empty document has none. All of it is in memory."""
    data = from_yaml(stream.read())
    if data is not None:
        yield from _require_list(data)


def _require_list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise ValueError(
            f"the document must be a list of items, got one {type(data).__name__}; for one item per line use .jsonl"
        )
    return data


class JsonlWriter:
    """Write one row per line."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, row: Row) -> None:
        """Append a row."""
        self._stream.write(json_bytes(row) + b"\n")

    def finish(self) -> None:
        """Do nothing: the last row ends the file."""

    def discard(self) -> None:
        """Do nothing; no temporary data is held."""


class JsonWriter:
    """Write one array, a row per line."""

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
        """Do nothing; no temporary data is held."""
