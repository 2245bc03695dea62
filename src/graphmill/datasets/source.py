"""Files of items, opened again for each iteration: JSON Lines, JSON, YAML and, in ``csv_table``, CSV."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, BinaryIO

from graphmill.core.errors import SourceError, UsageError, message_of
from graphmill.core.json import from_json
from graphmill.core.suggest import file_suggestion, suggestion
from graphmill.core.yaml import from_yaml
from graphmill.datasets.csv_table import count_csv, read_csv


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


Reader = Callable[[BinaryIO], Generator[Any, None, None]]

_COUNTED = {"jsonl": (count_jsonl, 2**30), "csv": (count_csv, 2**26)}  # files up to this size: about half a second

READERS: dict[str, Reader] = {"jsonl": read_jsonl, "json": read_json, "yaml": read_yaml, "csv": read_csv}
_FORMAT_HINT = "; if it is CSV, use --source-format csv, or format='csv'"
_FORMAT_OF = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".csv": "csv"}


@dataclass(frozen=True, slots=True)
class FileSource:
    """The items of one file or of standard input, read lazily; a run iterates it in a thread.

    ``place`` is the absolute path, which stays valid when the working directory changes.
    """

    path: str
    place: Path
    format: str
    offset: int = 0
    limit: int | None = None

    def __iter__(self) -> Iterator[Any]:
        with closing(self._all()) as items:
            end = None if self.limit is None else self.offset + self.limit
            yield from islice(items, self.offset, end)

    def note(self) -> dict[str, Any]:
        """Return what is needed to open it again; standard input cannot be."""
        path = None if self.path == "-" else str(self.place)
        return {"path": path, "format": self.format, "offset": self.offset, "limit": self.limit}

    @property
    def is_stored(self) -> bool:
        """Whether it is a regular file, so that reading never waits for a writer."""
        return self.place.is_file()

    def _all(self) -> Generator[Any, None, None]:
        position = 0
        with self._open() as stream, closing(READERS[self.format](stream)) as items:
            while True:
                try:
                    item = next(items)
                except StopIteration:
                    return
                except (ValueError, OSError) as error:
                    text = f"{self.name}: {message_of(error)} (good items before it: {position:,})"
                    if self.path == "-" and self.format == "jsonl" and not position:
                        text += _FORMAT_HINT
                    raise SourceError(text, position=position) from error
                yield item
                position += 1

    @property
    def name(self) -> str:
        """Its name in messages."""
        if self.path == "-":
            return "standard input"
        return self.path

    def count(self) -> int | None:
        """Count the items of a JSON Lines or CSV file; None for other formats, large files, pipes and standard input."""
        path, (count, most_bytes) = self.place, _COUNTED.get(self.format, (None, 0))
        if self.path == "-" or count is None or not path.is_file() or path.stat().st_size > most_bytes:
            return None
        with self._open() as stream:
            left = max(0, count(stream) - self.offset)
        if self.limit is not None:
            left = min(left, self.limit)
        return left

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        if self.path == "-":
            with _standard_input() as stream:
                yield stream
            return
        try:
            stream = self.place.open("rb")
        except OSError as error:
            raise SourceError(f"cannot read {self.path!r}: {error.strerror}", position=0) from error
        with stream:
            yield stream


@contextmanager
def _standard_input() -> Iterator[BinaryIO]:
    """Open standard input again: a thread that waits in ``sys.stdin`` holds its lock, and the interpreter could not exit."""
    if sys.stdin is None:
        raise SourceError("standard input is closed", position=0)
    try:
        descriptor = sys.stdin.fileno()
    except OSError:  # it was replaced
        yield sys.stdin.buffer
        return
    with open(descriptor, "rb", closefd=False) as stream:
        yield stream


def source(path: str | Path, *, format: str | None = None, offset: int = 0, limit: int | None = None) -> FileSource:  # noqa: A002
    """Read items from a .jsonl, .json, .yaml or .csv file, or ``-`` for JSON Lines on standard input.

    ``format`` is for a name that does not say; the first ``offset`` items are skipped, and at most ``limit`` are read.
    """
    name = str(path)
    place = Path(name)
    if format is None:
        format = "jsonl" if name == "-" else _FORMAT_OF.get(place.suffix.lower())  # noqa: A001
        if format is None:
            raise UsageError(
                f"cannot tell the format of {name!r}; pass format (--source-format), one of {', '.join(READERS)}"
            )
    if format not in READERS:
        raise UsageError(f"no source format {format!r}{suggestion(format, READERS)}; formats are {', '.join(READERS)}")
    if name != "-":
        _require_readable(place)
        place = place.absolute()
    return FileSource(name, place, format, offset, limit)


def noted_source(note: Any) -> FileSource | None:
    """Open the source that a manifest recorded; None if that is not possible."""
    if not isinstance(note, Mapping) or not note.get("path"):
        return None
    return source(note["path"], format=note["format"], offset=note.get("offset", 0), limit=note.get("limit"))


def _require_readable(path: Path) -> None:
    try:
        mode = path.stat().st_mode
        if S_ISREG(mode):  # opening a pipe would take its content
            path.open("rb").close()
    except FileNotFoundError:
        raise UsageError(f"no file {str(path)!r}{file_suggestion(path)}") from None
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror}") from error
    if S_ISDIR(mode):
        raise UsageError(f"the source {str(path)!r} is a folder; name a file in it")
