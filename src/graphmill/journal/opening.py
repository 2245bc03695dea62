"""Which journal is meant: a path, a URL, the environment's, or the one beside the project."""

from __future__ import annotations

import os
from pathlib import Path

from graphmill.core.errors import UnknownRunError, UsageError
from graphmill.core.suggest import suggestion
from graphmill.journal.ports import Store
from graphmill.journal.sqlite.store import SqliteStore, TemporaryStore

VARIABLE = "GRAPHMILL_JOURNAL"
BESIDE_THE_PROJECT = ".graphmill/runs.db"
_IN_MEMORY = "memory:"
_LATER = ("postgresql", "postgres")
_SCHEMES = ("memory", "postgresql", "sqlite")


def open_store(url: str | Path | None = None, *, create: bool = True) -> Store:
    """Open a journal: a path, ``sqlite:///path`` (four slashes for an absolute one) or ``memory:``.

    Without one it is that of the variable GRAPHMILL_JOURNAL, else ``.graphmill/runs.db``. One that is not there is made, or, without
    ``create``, is an UnknownRunError.
    """
    if url is not None and not isinstance(url, str | Path):
        raise UsageError(f"a journal is opened by its path or URL, not by {type(url).__name__}")
    name = str(url or default_journal())
    if name == _IN_MEMORY:
        return TemporaryStore()
    path = Path(name if isinstance(url, Path) else _path(name))
    try:
        if path.is_dir():
            raise UsageError(f"the journal {name!r} is a folder; name a file in it")
        if not create and not path.exists():
            raise UnknownRunError(
                f"no runs here yet: there is no journal {str(path.absolute())!r}; --journal names another place"
            )
    except OSError as error:  # such as a name that no file system takes
        raise UsageError(f"can not open the journal {name!r}: {error.strerror}") from error
    return SqliteStore(path)


def default_journal() -> str:
    """Tell which journal is meant where none is named."""
    return os.environ.get(VARIABLE) or BESIDE_THE_PROJECT


def fixed(url: str | Path | None = None) -> str | Path:
    """Hold on to a journal by what it is now: a function that changes the working directory must not change what is meant."""
    name = url or default_journal()
    return name if name == _IN_MEMORY else Path(name if isinstance(name, Path) else _path(name)).absolute()


def _path(name: str) -> str:
    """Give the path in a URL; what names no scheme is one."""
    scheme, colon, rest = name.partition(":")
    if not colon or not (rest.startswith("//") or scheme in (*_SCHEMES, *_LATER)):
        return name
    if scheme in _LATER:
        raise UsageError("a journal in PostgreSQL comes later; for now name a file, or sqlite:///path")
    if scheme != "sqlite":
        raise UsageError(
            f"no journal {name!r:.80}{suggestion(scheme, _SCHEMES)}; write a path, sqlite:///path or memory:"
        )
    if not rest.startswith("///") or rest == "///":
        raise UsageError(f"write sqlite:///path, with four slashes for an absolute one, not {name!r:.80}")
    return rest.removeprefix("///")
