"""Where the answers of models are kept: beside the journal of the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from graphmill.graph.models.cache.kept import keeping
from graphmill.graph.node_type import Context
from graphmill.journal.keeper import Keeper
from graphmill.journal.opening import BESIDE_THE_PROJECT, fixed
from graphmill.journal.sqlite.cache_file import SUFFIX


@contextmanager
def kept_beside(journal: Path | None) -> Iterator[None]:
    """Let what begins within keep its answers beside this journal; without one, only those of which that is wanted, in the usual place."""
    token = keeping.set(partial(_keeper, None if journal is None else cache_of(journal)))
    try:
        yield
    finally:
        keeping.reset(token)


def cache_of(journal: str | Path | None = None) -> Path:
    """Tell where the cache of a journal is, without a name that of the usual one."""
    where = fixed(journal)
    path = where if isinstance(where, Path) else Path(BESIDE_THE_PROJECT).absolute()
    return Path(os.path.realpath(path) + SUFFIX)


def _keeper(beside: Path | None, context: Context, *, is_wanted: bool) -> Keeper | None:
    path = beside or (cache_of() if is_wanted else None)
    return None if path is None else context.shared(("cache", path), partial(Keeper, path))
