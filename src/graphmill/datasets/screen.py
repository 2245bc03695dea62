"""A terminal as a place to write rows to: shows what they hold and obeys nothing of it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Screen(io.BufferedIOBase):
    """UTF-8 on its way to a terminal, with a blank for each character that is not there to be seen."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def writable(self) -> bool:
        """Say that it can be written to."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Show some text; a call holds whole characters."""
        chunk = bytes(data)
        text = chunk.decode(errors="replace")
        self._stream.write("".join(char if char.isprintable() or char == "\n" else " " for char in text).encode())
        return len(chunk)

    def flush(self) -> None:
        """Let it be seen now."""
        self._stream.flush()
