"""Files of items, opened anew each time they are iterated."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from graphmill.core.errors import SourceError, UsageError
from graphmill.core.names import suggestion
from graphmill.datasets import csv_table, json_array, jsonl, yaml_list

Reader = Callable[[BinaryIO], Iterator[Any]]

READERS: dict[str, Reader] = {"jsonl": jsonl.read, "json": json_array.read, "yaml": yaml_list.read, "csv": csv_table.read}
_FORMAT_OF = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".yaml": "yaml", ".yml": "yaml", ".csv": "csv"}


@dataclass(frozen=True, slots=True)
class FileSource:
    """The items of one file, or of standard input; lazily read, in a thread when a run iterates it."""

    path: str
    format: str

    def __iter__(self) -> Iterator[Any]:
        position = 0
        with self._open() as stream:
            items = READERS[self.format](stream)
            while True:
                try:
                    item = next(items)
                except StopIteration:
                    return
                except (ValueError, OSError) as error:
                    raise SourceError(f"{self.name}: {error} (after {position:,} good items)", position=position) from error
                yield item
                position += 1

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard input" if self.path == "-" else self.path

    def count(self) -> int | None:
        """Count the items of a JSON Lines file, for progress; None for what would have to be parsed, or comes only once."""
        if self.format != "jsonl" or not Path(self.path).is_file():
            return None
        with self._open() as stream:
            return jsonl.count(stream)

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        if self.path == "-":
            yield sys.stdin.buffer
            return
        with Path(self.path).open("rb") as stream:
            yield stream


def source(path: str | Path, *, format: str | None = None) -> FileSource:  # noqa: A002
    """Read items from a file: .jsonl, .json, .yaml or .csv, or ``-`` for JSON Lines on standard input.

    ``format`` says what the file holds where its name does not.
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
    return FileSource(name, format)


def _require_readable(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"the source {str(path)!r} is a folder; name a file in it")
    try:
        path.open("rb").close()
    except FileNotFoundError:
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise UsageError(f"there is no file {str(path)!r}{suggestion(path.name, siblings)}") from None
    except OSError as error:
        raise UsageError(f"can not read {str(path)!r}: {error.strerror}") from error
