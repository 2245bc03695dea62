"""Files of items, opened anew each time they are iterated."""

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
from graphmill.core.suggest import file_suggestion, suggestion
from graphmill.datasets.csv_table import count_csv, read_csv
from graphmill.datasets.json_files import count_jsonl, read_json, read_jsonl, read_yaml

Reader = Callable[[BinaryIO], Generator[Any, None, None]]

_COUNTED = {"jsonl": (count_jsonl, 2**30), "csv": (count_csv, 2**26)}  # up to so many bytes: about half a second

READERS: dict[str, Reader] = {
    "jsonl": read_jsonl,
    "json": read_json,
    "yaml": read_yaml,
    "csv": read_csv,
}
_OTHERWISE = "; if it is CSV, say so: --source-format csv, or format='csv'"
_FORMAT_OF = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".csv": "csv"}


@dataclass(frozen=True, slots=True)
class FileSource:
    """The items of one file, or of standard input; lazily read, in a thread when a run iterates it.

    ``place`` is where ``path`` leads also when the working directory is another.
    """

    path: str
    place: Path
    format: str
    offset: int = 0
    limit: int | None = None

    def __iter__(self) -> Iterator[Any]:
        with closing(self._all()) as items:
            yield from islice(items, self.offset, None if self.limit is None else self.offset + self.limit)

    def note(self) -> dict[str, Any]:
        """Tell by what it can be opened again; standard input can not."""
        path = None if self.path == "-" else str(self.place)
        return {"path": path, "format": self.format, "offset": self.offset, "limit": self.limit}

    @property
    def is_stored(self) -> bool:
        """Whether its items are all there, so that reading never waits for anybody."""
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
                    hint = _OTHERWISE if self.path == "-" and self.format == "jsonl" and not position else ""
                    said = f"{self.name}: {message_of(error)} (good items before it: {position:,}){hint}"
                    raise SourceError(said, position=position) from error
                yield item
                position += 1

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard input" if self.path == "-" else self.path

    def count(self) -> int | None:
        """Count the items of a file of JSON Lines or CSV, for progress; None where that would take long, or it comes only once."""
        path, (count, most_bytes) = self.place, _COUNTED.get(self.format, (None, 0))
        if self.path == "-" or count is None or not path.is_file() or path.stat().st_size > most_bytes:
            return None
        with self._open() as stream:
            left = max(0, count(stream) - self.offset)
        return left if self.limit is None else min(left, self.limit)

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        if self.path == "-":
            with _standard_input() as stream:
                yield stream
            return
        try:
            stream = self.place.open("rb")
        except OSError as error:
            raise SourceError(f"can not read {self.path!r}: {error.strerror}", position=0) from error
        with stream:
            yield stream


@contextmanager
def _standard_input() -> Iterator[BinaryIO]:
    """Open standard input once more: a thread that waits in ``sys.stdin`` holds its lock, and the interpreter could not end."""
    if sys.stdin is None:
        raise SourceError("standard input is closed", position=0)
    try:
        descriptor = sys.stdin.fileno()
    except OSError:  # somebody has put something else in its place
        yield sys.stdin.buffer
        return
    with open(descriptor, "rb", closefd=False) as stream:
        yield stream


def source(path: str | Path, *, format: str | None = None, offset: int = 0, limit: int | None = None) -> FileSource:  # noqa: A002
    """Read items from a file: .jsonl, .json, .yaml or .csv, or ``-`` for JSON Lines on standard input.

    ``format`` says what the file holds where its name does not; ``offset`` items are passed over, at most ``limit`` are given.
    """
    name = str(path)
    if format is None:
        format = "jsonl" if name == "-" else _FORMAT_OF.get(Path(name).suffix.lower())  # noqa: A001
        if format is None:
            raise UsageError(f"can not tell what {name!r} holds by its name; name the format: {', '.join(READERS)}")
    if format not in READERS:
        raise UsageError(f"no source format {format!r}{suggestion(format, READERS)}; there are {', '.join(READERS)}")
    if name != "-":
        _require_readable(Path(name))
    return FileSource(name, Path(name) if name == "-" else Path(name).absolute(), format, offset, limit)


def noted_source(note: Any) -> FileSource | None:
    """Open again what a manifest notes, if that can be."""
    if not isinstance(note, Mapping) or not note.get("path"):
        return None
    return source(note["path"], format=note["format"], offset=note.get("offset", 0), limit=note.get("limit"))


def _require_readable(path: Path) -> None:
    try:
        mode = path.stat().st_mode
        if S_ISREG(mode):  # a pipe gives what it holds to the first who opens it
            path.open("rb").close()
    except FileNotFoundError:
        raise UsageError(f"there is no file {str(path)!r}{file_suggestion(path)}") from None
    except OSError as error:
        raise UsageError(f"can not read {str(path)!r}: {error.strerror}") from error
    if S_ISDIR(mode):
        raise UsageError(f"the source {str(path)!r} is a folder; name a file in it")
