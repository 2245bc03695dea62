"""Where results go: files that are absent or whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import BinaryIO, Protocol
from uuid import uuid4

from graphmill.core.errors import ExportError, UsageError
from graphmill.core.names import suggestion
from graphmill.core.result import Result
from graphmill.datasets import csv_table, json_array, jsonl
from graphmill.datasets.row import Row, row_of


class Sink(Protocol):
    """Takes results as they come; then is told once that these were all, or that they were not."""

    def write(self, result: Result) -> None:
        """Take one result."""

    def commit(self) -> None:
        """Keep what was written: there is no more."""

    def abort(self) -> None:
        """Leave nothing behind."""


class RowWriter(Protocol):
    """Writes rows in one format."""

    def write(self, row: Row) -> None:
        """Append a row."""

    def finish(self) -> None:
        """Write what stands after the last row."""

    def discard(self) -> None:
        """Let go of whatever is held; nothing will be finished."""


WRITERS: dict[str, Callable[[BinaryIO], RowWriter]] = {
    ".jsonl": jsonl.Writer,
    ".ndjson": jsonl.Writer,
    ".json": json_array.Writer,
    ".csv": csv_table.Writer,
}


class FileSink:
    """A file of result rows, written under a temporary name beside it, synced, then renamed."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        writer = WRITERS.get(self._path.suffix.lower())
        if writer is None:
            raise UsageError(
                f"can not tell the format of {str(path)!r}{suggestion(self._path.suffix, WRITERS)}; it may end in {', '.join(WRITERS)}"
            )
        self._is_special = _is_special(self._path)
        self._path = self._path if self._is_special else self._path.resolve()
        self._temporary = self._path if self._is_special else self._path.with_name(f".{self._path.name}.{uuid4().hex[:8]}.tmp")
        self._stream = self._open()
        self._writer = writer(self._stream)

    def write(self, result: Result) -> None:
        """Append a result's row."""
        try:
            _write_row(self._writer, result, self._path.name)
        except ExportError:
            self.abort()
            raise

    def commit(self) -> None:
        """Put the whole file in its place."""
        self._writer.finish()
        self._stream.flush()
        if not self._is_special:
            os.fsync(self._stream.fileno())
        self._stream.close()
        if not self._is_special:
            self._temporary.replace(self._path)
            _sync_folder(self._path.parent)

    def abort(self) -> None:
        """Leave no file, or the one that was there before."""
        self._writer.discard()
        with suppress(OSError):
            self._stream.close()
        if not self._is_special:
            self._temporary.unlink(missing_ok=True)

    def _open(self) -> BinaryIO:
        try:
            if self._path.is_dir():
                raise UsageError(f"the output {str(self._path)!r} is a folder; name a file in it")
            return self._temporary.open("wb" if self._is_special else "xb")
        except FileNotFoundError:
            raise UsageError(f"there is no folder {str(self._path.parent)!r} to write {self._path.name!r} into") from None
        except OSError as error:
            raise UsageError(f"can not write {str(self._path)!r}: {error.strerror}") from error


class StdoutSink:
    """JSON Lines on standard output, each row as soon as it is there."""

    def __init__(self) -> None:
        self._writer = jsonl.Writer(sys.stdout.buffer)

    def write(self, result: Result) -> None:
        """Print a result's row."""
        try:
            _write_row(self._writer, result, "standard output")
            sys.stdout.buffer.flush()
        except BrokenPipeError as error:
            raise ExportError("whoever read standard output has gone away; the batch was stopped") from error

    def commit(self) -> None:
        """Everything is out already."""

    def abort(self) -> None:
        """Do nothing: what is out is out."""


def sink(path: str | Path) -> Sink:
    """Write results to a file, in the format its name says: .jsonl, .json or .csv; ``-`` is standard output."""
    return StdoutSink() if str(path) == "-" else FileSink(path)


def write_all(results: Iterable[Result], target: Sink) -> None:
    """Write a finished series of results, all or nothing."""
    try:
        for result in results:
            target.write(result)
        target.commit()
    except BaseException:
        target.abort()
        raise


def _write_row(writer: RowWriter, result: Result, name: str) -> None:
    try:
        writer.write(row_of(result))
    except (TypeError, ValueError, RecursionError) as error:
        raise ExportError(f"the result of {result.job_id!r:.80} can not be written to {name}: {error}") from error


def _is_special(path: Path) -> bool:
    """Tell whether this is a device or a pipe, to be written in place: a rename would put a file where it was."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not S_ISREG(mode) and not S_ISDIR(mode)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # some file systems do not sync folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
