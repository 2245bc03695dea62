"""Files as a source of rows: one, those that match a pattern, or standard input."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, ClassVar

from graphmill.core.errors import SourceError, UsageError
from graphmill.core.suggest import file_suggestion, suggestion
from graphmill.datasets.named import DATASETS
from graphmill.datasets.row_file import READERS, STANDARD_INPUT, RowFile, format_of, local_file
from graphmill.datasets.row_file import standard_input as stdin_file

_GLOB = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """One file, several that a pattern names, or standard input (``pattern`` is ``-``)."""

    pattern: str
    format: str | None
    place: str | None
    is_remote: bool = False
    item_of: ClassVar[None] = None

    @property
    def name(self) -> str:
        """Its name in messages."""
        return STANDARD_INPUT if self.place is None else self.pattern

    @property
    def is_stored(self) -> bool:
        """Whether all of it is in regular files."""
        return self.place is not None and all(path.is_file() for path in self.paths())

    def parts(self, most: int | None) -> Iterable[RowFile]:  # noqa: ARG002  files are read lazily anyway
        """Return the files, in the order of their names."""
        if self.place is None:
            return [stdin_file(self.format or "jsonl")]
        paths = self.paths()
        if not paths:
            raise SourceError(f"no file matches {self.pattern!r}", position=0)
        name = self.pattern if len(paths) == 1 and not _is_pattern(self.place) else ""
        return [local_file(path, self._format(path), name=name) for path in paths]

    def note(self) -> dict[str, Any]:
        """Return the absolute path or pattern, which stays valid when the working directory changes."""
        return {"path": self.place, "format": self.format}

    def state(self) -> Any:
        """Return the times and sizes of the files; None if one of them is a pipe."""
        if not self.is_stored:
            return None
        return [(path, path.stat().st_mtime_ns, path.stat().st_size) for path in self.paths()]

    def paths(self) -> list[Path]:
        """List the files that there are now; none of standard input."""
        if self.place is None:
            return []
        place = self.place
        if not _is_pattern(place):
            return [Path(place)]
        found = sorted(glob.glob(place, recursive=True))  # noqa: PTH207  pathlib takes no absolute patterns
        return [path for path in map(Path, found) if not path.is_dir()]

    def _format(self, path: Path) -> str:
        return self.format or _require_format(path)


def find_files(name: str, format: str | None) -> Files:  # noqa: A002
    """Return the files of a name or pattern; UsageError if there is no such file, or it cannot be read."""
    path = Path(name)
    if _is_pattern(name):
        return Files(pattern=name, format=format, place=str(path.absolute()))
    if format is None:
        _require_format(path)
    _require_readable(path)
    return Files(pattern=name, format=format or format_of(name), place=str(path.absolute()))


def _is_pattern(name: str) -> bool:
    """Whether a name is a pattern; a file that has exactly this name comes first."""
    return bool(_GLOB & set(name)) and not Path(name).exists()


def _require_format(path: Path) -> str:
    found = format_of(path.name)
    if found is None:
        raise UsageError(
            f"cannot tell the format of {str(path)!r}; pass format (--source-format), one of {', '.join(READERS)}"
            f"{_dataset_hint(path)}"
        )
    return found


def _dataset_hint(path: Path) -> str:
    """Suggest a dataset, if the name may be meant for one."""
    if path.suffix or path.exists():
        return ""
    return suggestion(str(path), DATASETS) or f"; datasets known by name are {', '.join(DATASETS)}"


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
