"""What the commands that read the journal share: their common options, and the way to the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from graphmill.core.errors import UsageError
from graphmill.journal.opening import open_store
from graphmill.journal.ports import Store

RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or the beginning of it.", show_default=False)]
Journal = Annotated[
    str | None,
    typer.Option(
        "--journal",
        metavar="PATH|URL",
        help="Where the runs are recorded; without it $GRAPHMILL_JOURNAL, else .graphmill/runs.db.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as docs/cli.md describes it.")]


@contextmanager
def opened(journal: str | None) -> Iterator[Store]:
    """Open a store that is there, and close it after use; none is made by being looked for."""
    store = open_store(journal, create=False)
    try:
        yield store
    finally:
        store.close()


def require_apart(file: str | None, journal: str) -> None:
    """Refuse to write results over the journal, or over one of the files beside it."""
    if file is None or file == "-":
        return
    target, store = Path(file).resolve(), Path(journal.removeprefix("sqlite:///")).resolve()
    if target.parent == store.parent and (target.name == store.name or target.name.startswith(f"{store.name}-")):
        raise UsageError(f"{file!r} is the journal itself, or belongs to it; name another file")
