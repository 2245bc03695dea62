"""Standard error that holds nobody up: neither a reader that does not read nor a terminal that is gone stops a run."""

from __future__ import annotations

import io
import os
import select
import sys
from collections import deque
from contextlib import suppress
from threading import Condition, Thread
from typing import TYPE_CHECKING

from graphmill.cli.width import fitted

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MOST_BYTES = 2**20
_PATIENCE_S = 0.1
_LAST_PATIENCE_S = 1.0


class Stderr(io.TextIOWrapper):
    """A text stream like the usual one, until whoever reads it stops: then it keeps a megabyte for them and drops the rest."""

    def __init__(self, descriptor: int = 2, *, encoding: str = "utf-8") -> None:
        self._out = _Out(descriptor)
        super().__init__(
            self._out, encoding=encoding, errors="backslashreplace", line_buffering=True, write_through=True
        )

    def settle(self) -> None:
        """Wait until everything is out, as long as somebody takes it."""
        self._out.settle()


class _Out(io.BufferedIOBase):
    """Bytes on their way to a descriptor, written by a daemon thread: only a thread can be left alone with a write that blocks."""

    name = "<stderr>"

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._forget()
        os.register_at_fork(
            after_in_child=self._forget
        )  # the child has no thread of ours, and its parent writes what waits

    def _forget(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._bytes = 0
        self._written = 0
        self._changed = Condition()
        self._thread: Thread | None = None
        self._is_stuck = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: ReadableBuffer, /) -> int:
        chunk = bytes(data)
        with self._changed:
            if self._thread is None:
                self._thread = Thread(target=self._work, name="graphmill-stderr", daemon=True)
                self._thread.start()
            if self._bytes + len(chunk) <= MOST_BYTES:
                self._chunks.append(chunk)
                self._bytes += len(chunk)
                self._changed.notify_all()
        return len(chunk)

    def flush(self) -> None:
        """Wait for what was written to get out, but not long, and where nothing gets on, not at all."""
        with self._changed:
            end = self._written + self._bytes
            if not self._is_stuck and not self._changed.wait_for(lambda: self._written >= end, _PATIENCE_S):
                self._is_stuck = True

    def settle(self) -> None:
        """Wait until everything is out, as long as something gets on."""
        with self._changed:
            while self._bytes and self._gets_on():
                pass

    def _gets_on(self) -> bool:
        before = self._written
        return self._changed.wait_for(lambda: self._written > before, _LAST_PATIENCE_S)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._chunks))
                chunk = self._chunks.popleft()
            while chunk:
                size = self._put(chunk)
                chunk = chunk[size:]
                with self._changed:
                    self._bytes -= size
                    self._written += size
                    self._is_stuck = False
                    self._changed.notify_all()

    def _put(self, chunk: bytes) -> int:
        try:
            return os.write(self._descriptor, chunk)
        except BlockingIOError:  # somebody who shares it has made it so
            select.select([], [self._descriptor], [])
            return 0
        except OSError:
            return len(chunk)  # nobody can be told


def tell_error(error: Exception) -> None:
    """Say what went wrong, in words that can not write on the terminal what they like."""
    _tell("error", str(error))


def tell_note(text: str) -> None:
    """Say what is worth knowing, likewise."""
    _tell("note", text)


def _tell(word: str, text: str) -> None:
    plain = "".join(char if char.isprintable() or char == "\n" else " " for char in text)
    with suppress(OSError):
        sys.stderr.write("\n".join(fitted(f"{word}: {plain}".splitlines(), sys.stderr)) + "\n")
        sys.stderr.flush()
