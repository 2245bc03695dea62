"""Sinks for results: standard output, and files that are complete or do not exist."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE, S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast
from uuid import uuid4

from graphmill.core.errors import ExportError, UsageError, message_of
from graphmill.core.json import json_bytes, to_json
from graphmill.core.result import Result
from graphmill.core.suggest import suggestion
from graphmill.datasets.csv_table import CsvWriter
from graphmill.datasets.parquet import ParquetWriter, pyarrow_parquet
from graphmill.datasets.row import ColumnChoice, Row, row_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Sink(Protocol):
    """Receives results as they are finished, then one call: commit or abort."""

    def write(self, result: Result) -> None:
        """Write one result."""

    def commit(self, *, complete: bool) -> None:
        """Keep what was written; ``complete`` is False if the run ended early or its source failed."""

    def abort(self) -> None:
        """Discard what was written."""


class RowWriter(Protocol):
    """Writes rows in one format."""

    def write(self, row: Row) -> None:
        """Append a row."""

    def finish(self) -> None:
        """End the file after the last row."""

    def discard(self) -> None:
        """Release temporary data; ``finish`` will not be called."""


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
        if self._before == b"[\n":
            self._stream.write(b"[]\n")
        else:
            self._stream.write(b"\n]\n")

    def discard(self) -> None:
        """Do nothing; no temporary data is held."""


WRITERS: dict[str, Callable[[BinaryIO], RowWriter]] = {
    ".jsonl": JsonlWriter,
    ".ndjson": JsonlWriter,
    ".json": JsonWriter,
    ".csv": CsvWriter,
    ".parquet": ParquetWriter,
}
FORMATS = tuple(suffix[1:] for suffix in WRITERS)


class FileSink:
    """A file of result rows: written under a temporary name, synced, then renamed.

    The rows of a run that ended early go to ``name.partial.suffix`` and never replace complete ones. ``written`` is the
    path once the file exists. A device or a pipe ``is_special`` and is written in place.
    """

    holds_rows = True

    def __init__(
        self,
        path: str | Path,
        format: str | None = None,  # noqa: A002
        columns: Sequence[str] | None = None,
    ) -> None:
        self._columns = None if columns is None else ColumnChoice(columns)
        self._path = Path(path)
        self.is_special = _is_special(self._path)
        suffix = self._path.suffix.lower() if format is None else f".{format}"
        make_writer = WRITERS.get(suffix)
        if make_writer is None and self.is_special:
            make_writer = JsonlWriter
        if make_writer is None:
            raise UsageError(
                f"cannot tell the format of {str(path)!r}{suggestion(self._path.suffix, WRITERS)}; "
                f"the name must end in {', '.join(WRITERS)}"
            )
        if make_writer is ParquetWriter:
            pyarrow_parquet()  # it is missed now, and not after the run
        self._make_writer = make_writer
        if self.is_special:
            self._path = self._temporary = self._path.absolute()
        else:
            self._path = Path(os.path.realpath(self._path))  # Path.resolve raises for a circle of links
            self._temporary = self._path.with_name(f".graphmill-{uuid4().hex[:8]}.tmp")
        self._stream: BinaryIO | None = None
        self._writer: RowWriter | None = None
        self.written: Path | None = None
        self.is_partial = False
        self._is_aborted = False
        _require_writable(self._path)

    def write(self, result: Result) -> None:
        """Append a result's row."""
        with _export_errors(repr(str(self._path))):
            _write_row(self._open(), result, self._path.name, self._columns)

    def commit(self, *, complete: bool = True) -> None:
        """Move the complete file to its place."""
        with _export_errors(repr(str(self._path))):
            self._commit(complete=complete)

    def _commit(self, *, complete: bool) -> None:
        if self._columns is not None:
            self._columns.require_all()
        self._open().finish()
        if self._stream is None:
            return
        self._stream.flush()
        if self.is_special:
            self._stream.close()
            return
        with suppress(FileNotFoundError):
            os.fchmod(self._stream.fileno(), S_IMODE(self._path.stat().st_mode))
        os.fsync(self._stream.fileno())
        self._stream.close()
        self.is_partial = not complete
        self.written = self._path
        if self.is_partial:
            self.written = partial_path(self._path)
        self._temporary.replace(self.written)
        _sync_folder(self._path.parent)

    def forget(self) -> None:
        """Remove the temporary file without touching the stream, for an exit that must not wait."""
        if not self.is_special:
            with suppress(OSError):
                self._temporary.unlink()

    def abort(self) -> None:
        """Remove the temporary file; an earlier file stays."""
        self._is_aborted = True
        if self._writer is None or self._stream is None:
            return
        with suppress(OSError):
            self._writer.discard()
        with suppress(OSError):
            self._stream.close()
        if not self.is_special:
            self._temporary.unlink(missing_ok=True)

    def _open(self) -> RowWriter:
        """Open at first use, so that an unused sink creates nothing."""
        if self._is_aborted:
            raise ExportError(f"writing {self._path.name} was aborted")
        if self._writer is None:
            try:
                self._stream = self._temporary.open("wb" if self.is_special else "xb")
            except OSError as error:
                raise ExportError(f"cannot write {str(self._path)!r}: {error.strerror}") from error
            self._writer = self._make_writer(self._stream)
        return self._writer


class StdoutSink:
    """Standard output: JSON Lines by default, each row as soon as it is finished."""

    holds_rows = True

    def __init__(self, format: str | None = None, columns: Sequence[str] | None = None) -> None:  # noqa: A002
        self._columns = None if columns is None else ColumnChoice(columns)
        self._stream: BinaryIO = sys.stdout.buffer
        if sys.stdout.isatty():
            self._stream = cast("BinaryIO", _Screen(self._stream))
        self._writer = WRITERS[f".{format or 'jsonl'}"](self._stream)

    def write(self, result: Result) -> None:
        """Print a result's row."""
        with _export_errors("standard output"):
            _write_row(self._writer, result, "standard output", self._columns)
            self._stream.flush()

    def commit(self, *, complete: bool = True) -> None:  # noqa: ARG002  printed rows stay
        """End the output after the last row."""
        with _export_errors("standard output"):
            self._writer.finish()
            self._stream.flush()

    def abort(self) -> None:
        """Release temporary data; printed rows stay."""
        self._writer.discard()


class _Screen(io.BufferedIOBase):
    """A terminal: rows are shown with a space for each control character, so that no data can control it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Write some text; each call holds whole characters."""
        chunk = bytes(data)
        text = chunk.decode(errors="replace")
        self._stream.write("".join(char if char.isprintable() or char == "\n" else " " for char in text).encode())
        return len(chunk)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()


@contextmanager
def _export_errors(name: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise ExportError(f"{name} was closed by its reader; not all results were written") from error
    except OSError as error:
        raise ExportError(f"cannot write {name}: {error.strerror or error}") from error


def sink(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    columns: Sequence[str] | None = None,
) -> Sink:
    """Write results to a .jsonl, .json, .csv or .parquet file; ``-`` is standard output.

    ``format`` is jsonl, json, csv or parquet, for a name that does not say. ``columns`` are the fields to write, such
    as ``["id", "label", "input.text"]``: of the row or, by their own name, of output, input or metadata.
    """
    if format is not None and f".{format}" not in WRITERS:
        raise UsageError(f"no format {format!r}{suggestion(format, FORMATS)}; formats are {', '.join(FORMATS)}")
    if str(path) == "-":
        return StdoutSink(format, columns)
    return FileSink(path, format, columns)


def partial_path(path: Path) -> Path:
    """Return the path for the rows of a run that ended early."""
    return path.with_name(f"{path.stem}.partial{path.suffix}")


def write_all(results: Iterable[Result], target: Sink, *, complete: bool) -> None:
    """Write all results or nothing; incomplete ones go to a partial file, beside complete ones."""
    try:
        for result in results:
            target.write(result)
        target.commit(complete=complete)
    except BaseException:
        target.abort()
        raise


def _write_row(writer: RowWriter, result: Result, name: str, columns: ColumnChoice | None) -> None:
    row = row_of(result)
    try:
        to_json(result.input)
    except (TypeError, ValueError, RecursionError) as error:  # the input is only for information
        row |= {"input": None, "metadata": {**result.metadata, "input_left_out": message_of(error)}}
    if columns is not None:
        row = columns.pick(row)
    try:
        writer.write(row)
    except (TypeError, ValueError, RecursionError) as error:
        raise ExportError(f"cannot write the result of {result.job_id!r:.80} to {name}: {message_of(error)}") from error


def _require_writable(path: Path) -> None:
    """Refuse a path that cannot be written before the first item runs."""
    try:
        if path.is_dir():
            raise UsageError(f"the output {str(path)!r} is a folder; name a file in it")
        if not path.parent.is_dir():
            raise UsageError(f"no folder {str(path.parent)!r} to write {path.name!r} to")
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror}") from error
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"cannot write {str(path)!r}: the folder is read-only")


def _is_special(path: Path) -> bool:
    """Say whether this is a device or a pipe, which a rename would replace by a file."""
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
