"""What the commands that read the journal share: their common options, and the way to the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

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
