"""Where settings are found: a file of the project, from the current folder upward, over one of the person's own."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from graphmill.core.errors import UsageError, WorkflowError
from graphmill.graph.document import Document
from graphmill.graph.models.settings import Settings
from graphmill.graph.models.settings_reader import read_settings

NAME = "graphmill.yaml"


def settings_here() -> Settings:
    """Give what is set for the current folder; UsageError lists what is wrong in its files."""
    found = Settings()
    for path in (project_file(), user_file()):
        if path is not None:
            found = found.over(_read(path))
    return found


def project_file() -> Path | None:
    """Give the nearest settings file from the current folder upward."""
    here = Path.cwd()
    return next((path for folder in (here, *here.parents) if (path := folder / NAME).is_file()), None)


def user_file() -> Path | None:
    """Give the settings file of the person, if there is one."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111  Path's raises where there is no home
    path = Path(base) / "graphmill" / "config.yaml"
    return path if path.is_file() else None


def _read(path: Path) -> Settings:
    try:
        stat = path.stat()
    except OSError as error:
        raise UsageError(f"can not read {path}: {error.strerror}") from error
    return _known(path, stat.st_mtime_ns, stat.st_size, stat.st_ino)


@lru_cache(maxsize=16)
def _known(path: Path, *_: int) -> Settings:
    try:
        return read_settings(Document.read(path, what="settings"))
    except WorkflowError as error:
        raise UsageError(str(error)) from None
