"""Where answers are kept: beside the journal of the run, under whose attempts this is found through the context."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from graphmill.journal.opening import BESIDE_THE_PROJECT, fixed
from graphmill.journal.sqlite.cache_file import SUFFIX

_beside: ContextVar[Path | None] = ContextVar("graphmill_cache", default=None)


@contextmanager
def kept_beside(journal: Path | None) -> Iterator[None]:
    """Let what begins within keep its answers beside this journal; None for a run that is not recorded in a file."""
    token = _beside.set(None if journal is None else cache_of(journal))
    try:
        yield
    finally:
        _beside.reset(token)


def cache_place(*, is_wanted: bool) -> Path | None:
    """Tell where an answer is kept; where nothing is recorded, only one of which that ``is_wanted`` is."""
    return _beside.get() or (cache_of() if is_wanted else None)


def cache_of(journal: str | Path | None = None) -> Path:
    """Tell where the cache of a journal is, without a name that of the usual one."""
    where = fixed(journal)
    path = where if isinstance(where, Path) else Path(BESIDE_THE_PROJECT).absolute()
    return Path(os.path.realpath(path) + SUFFIX)
