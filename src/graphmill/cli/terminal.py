"""What a command prints: lines and JSON on stdout, errors and notes on stderr; and its exit status."""

from __future__ import annotations

import io
import os
import select
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import IntEnum
from textwrap import TextWrapper
from threading import Condition, Thread
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from graphmill.core.errors import ExportError
from graphmill.core.json import to_json

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MAX_QUEUED_BYTES = 2**20
_FLUSH_S = 0.1
_SETTLE_S = 1.0

_MIN_WIDTH = 40
_USUAL_WIDTH = 80
_COLUMN_GAP = "   "

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, on one line.")]


class ExitCode(IntEnum):
    """The exit statuses, documented in docs/cli.md."""

    SUCCESS = 0
    CRASH = 1
    USAGE = 2
    FAILURES = 3
    BUDGET = 4
    PAUSED = 5
    DATA = 65
    SERVICE = 69
    OUTPUT = 74
    OWNED = 75


# -- standard output


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, wrapped to the terminal if there is one. Control characters in them are replaced."""
    _print("\n".join(wrap_lines(printable(line) for line in lines)))


def print_json(value: Any) -> None:
    """Print one line of JSON."""
    require_stdout()
    _print(json_line(value))


def json_line(value: Any) -> str:
    """Write one line of JSON, with control characters escaped so that a terminal cannot obey them."""
    return "".join(char if char.isprintable() else _escape(char) for char in to_json(value))


def printable(text: str, *, also: str = "") -> str:
    """Replace control characters, which a terminal would obey, by spaces; those in ``also`` stay."""
    return "".join(char if char.isprintable() or char in also else " " for char in text)


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _print(text: str) -> None:
    try:
        typer.echo(text)
    except BrokenPipeError:  # a reader such as head has what it wants
        raise typer.Exit(ExitCode.OUTPUT) from None
    except OSError as error:
        raise stdout_error(error) from error


def stdout_error(error: OSError) -> ExportError:
    """Make the error for a standard output that cannot be written."""
    return ExportError(f"cannot write standard output: {error.strerror or error}")


def require_stdout() -> None:
    """Raise ExportError if standard output was closed by whoever started us: what is written there is lost."""
    if sys.__stdout__ is None:
        raise ExportError("cannot write standard output: it is closed")


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the number of columns; None if the stream (by default standard output) is not a terminal."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return None
    try:
        found = int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        found = _USUAL_WIDTH
    return max(found, _MIN_WIDTH)


def wrap_lines(lines: Iterable[str], stream: TextIO | None = None) -> Iterator[str]:
    """Wrap lines that are wider than the terminal, each under its last column."""
    width = terminal_width(stream)
    for line in lines:
        if width is None or len(line) <= width:
            yield line
        else:
            yield from _wrap(line, width)


def _wrap(line: str, width: int) -> Iterator[str]:
    margin = len(line) - len(line.lstrip())
    gap = line.rfind(_COLUMN_GAP, margin, width // 2)
    head, indent = "", " " * (margin + 2)
    if gap >= 0:
        head, indent = line[: gap + len(_COLUMN_GAP)], ""
    wrapper = TextWrapper(
        width - len(head), subsequent_indent=indent, break_on_hyphens=False, replace_whitespace=False, expand_tabs=False
    )
    for part in wrapper.wrap(line[len(head) :]):
        yield head + part
        head = " " * len(head)


# -- standard error


class StderrPrinter(io.RawIOBase):
    """Standard error that never blocks a run: a daemon thread writes, and a hung terminal loses what exceeds the queue.

    The queue holds ``MAX_QUEUED_BYTES``. Only a thread can be left alone with a write that blocks.
    """

    name = "<stderr>"

    def __init__(self, descriptor: int = 2) -> None:
        self._descriptor = descriptor
        self._pid = os.getpid()
        self._changed = Condition()
        self._chunks: deque[bytes] = deque()
        self._queued_bytes = 0
        self._written_bytes = 0
        self._is_stuck = False
        Thread(target=self._write_chunks, name="graphmill-stderr", daemon=True).start()

    def open(self, *, encoding: str = "utf-8") -> TextIO:
        """Return a text stream that prints here."""
        return io.TextIOWrapper(self, encoding=encoding, errors="backslashreplace", write_through=True)

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor that the thread writes to."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return whether somebody watches."""
        return os.isatty(self._descriptor)

    def write(self, data: ReadableBuffer, /) -> int:
        """Queue bytes; drop them if the queue is full."""
        chunk = bytes(data)
        if os.getpid() != self._pid:  # a forked child has no thread, and perhaps a lock that nobody releases
            return os.write(self._descriptor, chunk)
        with self._changed:
            if self._queued_bytes + len(chunk) <= MAX_QUEUED_BYTES:
                self._chunks.append(chunk)
                self._queued_bytes += len(chunk)
                self._changed.notify_all()
        return len(chunk)

    def flush(self) -> None:
        """Wait a moment until everything is written; not at all while the terminal hangs."""
        if os.getpid() == self._pid and not self._is_stuck:
            self._is_stuck = not self._wait(_FLUSH_S)

    def settle(self) -> None:
        """Wait until everything is written, as long as the terminal takes something."""
        self._wait(_SETTLE_S)

    def _wait(self, patience_s: float) -> bool:
        """Wait until what is queued now is written; return False if nothing was written for so long."""
        with self._changed:
            end = self._written_bytes + self._queued_bytes
            while self._written_bytes < end:
                if not self._wait_for_progress(self._written_bytes, patience_s):
                    return False
        return True

    def _wait_for_progress(self, before: int, patience_s: float) -> bool:
        return self._changed.wait_for(lambda: self._written_bytes > before, patience_s)

    def _write_chunks(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._chunks)
                chunk = self._chunks.popleft()
            while chunk:
                size = self._write_some(chunk)
                chunk = chunk[size:]
                with self._changed:
                    self._queued_bytes -= size
                    self._written_bytes += size
                    self._is_stuck = False
                    self._changed.notify_all()

    def _write_some(self, chunk: bytes) -> int:
        try:
            return os.write(self._descriptor, chunk)
        except BlockingIOError:  # a process that shares the terminal has made it non-blocking
            select.select([], [self._descriptor], [])
            return 0
        except OSError:
            return len(chunk)  # there is nobody to report it to


def print_error(error: Exception) -> None:
    """Print what went wrong. Control characters in it are replaced."""
    _print_labelled("error", str(error))


def print_note(text: str) -> None:
    """Print what is worth knowing."""
    _print_labelled("note", text)


def _print_labelled(label: str, text: str) -> None:
    print_stderr(printable(f"{label}: {text}", also="\n").splitlines())


def print_stderr(lines: Iterable[str]) -> None:
    """Print lines on standard error, wrapped to the terminal. An error there does not stop anything."""
    with suppress(OSError):
        sys.stderr.write("\n".join(wrap_lines(lines, sys.stderr)) + "\n")
        sys.stderr.flush()
