"""A workflow as it was written: its data, and where in which file each part of it stands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

At = tuple[str | int, ...]
Place = tuple[str, int, int]


class Document:
    """The data of one workflow file, or of a workflow given as Python data, with places.

    ``path`` is the file as it was named; ``root`` its folder, None where there is no file.
    """

    def __init__(self, path: str, data: Any, *, root: Path | None = None) -> None:
        self.path = path
        self.data = data
        self.root = root

    @classmethod
    def read(cls, path: str | Path) -> Document:
        """Read a workflow file; UsageError if there is none that can be read, WorkflowError if its text is not YAML or JSON."""
        raise NotImplementedError(path)

    @classmethod
    def from_data(cls, data: Mapping[str, Any], path: str | None = None) -> Document:
        """Take a workflow given as data; ``path`` says what to call it and what its own paths are relative to."""
        return cls(path or "workflow", data, root=None if path is None else Path(path).absolute().parent)

    def place(self, at: At, *, offset: int = 0) -> Place:
        """Give file, line and column of a part; of a part that is not there, its nearest parent's; 0, 0 where there is no text."""
        del at, offset
        return self.path, 0, 0

    def at_text(self, at: At) -> str:
        """Name a part as a person would: node 'fetch': batch.items."""
        return ".".join(map(str, at))
