"""One file of rows, from disk, standard input or a hub: JSON Lines, JSON, YAML, CSV, TSV or Parquet, also gzipped."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from graphmill.core.errors import SourceError
from graphmill.core.json import from_json
from graphmill.core.yaml import from_yaml
from graphmill.datasets.csv_table import count_csv, read_csv, read_tsv
from graphmill.datasets.parquet import count_parquet, read_parquet

# What a reader does with a row that cannot be read: raises its error, or notes it and goes on.
OnBadRow = Callable[[ValueError], None]
NumberedRow = tuple[int, Any]
Reader = Callable[[BinaryIO, OnBadRow], Generator[NumberedRow, None, None]]

STANDARD_INPUT = "standard input"
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_SAVES = 8  # times: what compressed text becomes at most, as a rule


def read_jsonl(stream: BinaryIO, on_bad: OnBadRow) -> Generator[NumberedRow, None, None]:
    """Read line by line; lines end at a newline only, and blank ones are skipped."""
    for number, line in enumerate(stream, start=1):
        text = (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).rstrip(b"\r\n")
        if not text or text.isspace():
            continue
        try:
            item = from_json(text, first_line=number)
        except ValueError as error:
            on_bad(error)
        else:
            yield number, item


def count_jsonl(stream: BinaryIO) -> int:
    """Count the items without parsing them."""
    first = stream.readline().removeprefix(b"\xef\xbb\xbf")
    return bool(first.strip()) + sum(not line.isspace() for line in stream)


def read_json(stream: BinaryIO, on_bad: OnBadRow) -> Generator[NumberedRow, None, None]:  # noqa: ARG001
    """Read a file that holds one array of items; all of it is in memory."""
    text = stream.read()
    try:
        data = from_json(text)
    except ValueError as error:
        if "Extra data" in str(error):
            raise ValueError(f"{error}; for one item per line use .jsonl, or --source-format jsonl") from error
        raise
    yield from enumerate(_require_list(data), start=1)


def read_yaml(stream: BinaryIO, on_bad: OnBadRow) -> Generator[NumberedRow, None, None]:  # noqa: ARG001
    """Read a file that holds one list of items; an empty document has none. All of it is in memory."""
    data = from_yaml(stream.read())
    if data is not None:
        yield from enumerate(_require_list(data), start=1)


def _require_list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise ValueError(
            f"the document must be a list of items, got one {type(data).__name__}; for one item per line use .jsonl"
        )
    return data


READERS: dict[str, Reader] = {
    "jsonl": read_jsonl,
    "json": read_json,
    "yaml": read_yaml,
    "csv": read_csv,
    "tsv": read_tsv,
    "parquet": read_parquet,
}
SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
_UNITS = {"jsonl": "line", "csv": "line", "tsv": "line"}
# How rows are counted, and in files up to which size: about half a second.
_COUNTED: dict[str, tuple[Callable[[BinaryIO], int], int]] = {
    "jsonl": (count_jsonl, 2**30),
    "csv": (count_csv, 2**26),
    "tsv": (count_csv, 2**26),
    "parquet": (count_parquet, 2**50),
}
# What an unreadable stream raises; SourceError becomes of it where the file is known.
UNREADABLE = (ValueError, OSError, EOFError, zlib.error)


def format_of(name: str) -> str | None:
    """Return the format that a file's name tells, without ``.gz``; None if it tells none."""
    path = Path(name)
    if path.suffix.lower() == ".gz":
        path = path.with_suffix("")
    return SUFFIXES.get(path.suffix.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFile:
    """A file of rows. ``name`` is for messages; ``place`` is None if the file is not on this disk."""

    name: str
    format: str
    open_stream: Callable[[], AbstractContextManager[io.BufferedReader]]
    place: Path | None = None

    @property
    def unit(self) -> str:
        """What the numbers of its rows count."""
        return _UNITS.get(self.format, "row")

    def rows(self, on_bad: OnBadRow) -> Generator[NumberedRow, None, None]:
        """Read lazily: each row with the number of its line or, in formats without lines, its own."""
        with self._open() as stream, closing(READERS[self.format](stream, on_bad)) as rows:
            yield from rows

    def count(self) -> int | None:
        """Count the rows; None for formats that are read whole, for large files, and for what is not a regular file."""
        count, most_bytes = _COUNTED.get(self.format, (None, 0))
        if count is None or self.place is None or not self.place.is_file():
            return None
        with self._open() as stream:
            if isinstance(stream, gzip.GzipFile):
                most_bytes //= _GZIP_SAVES
            return count(stream) if self.place.stat().st_size <= most_bytes else None

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        with self.open_stream() as stream:
            if stream.peek(2)[:2] != _GZIP_MAGIC:
                yield stream
                return
            with gzip.open(stream) as plain:
                yield cast("BinaryIO", plain)


def local_file(path: Path, format: str, *, name: str = "") -> RowFile:  # noqa: A002
    """Return a file on this disk."""
    shown = name or str(path)

    @contextmanager
    def opened() -> Iterator[io.BufferedReader]:
        try:
            stream = path.open("rb")
        except OSError as error:
            raise SourceError(f"cannot read {shown!r}: {error.strerror}", position=0) from error
        with stream:
            yield stream

    return RowFile(name=shown, format=format, open_stream=opened, place=path)


def standard_input(format: str) -> RowFile:  # noqa: A002
    """Return what comes on standard input."""
    return RowFile(name=STANDARD_INPUT, format=format, open_stream=_open_stdin)


@contextmanager
def _open_stdin() -> Iterator[io.BufferedReader]:
    """Open standard input again: a thread that blocks in ``sys.stdin`` holds its lock and would block the exit."""
    if sys.stdin is None:
        raise SourceError("standard input is closed", position=0)
    try:
        descriptor = sys.stdin.fileno()
    except OSError:  # it was replaced
        buffered: io.BufferedReader = io.BufferedReader(cast("io.RawIOBase", sys.stdin.buffer))
        yield buffered
        buffered.detach()
        return
    with open(descriptor, "rb", closefd=False) as stream:
        yield stream
