"""What the commands that read the journal share: their common options, and the way to the store."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from graphmill.core.errors import UsageError
from graphmill.datasets.sink import partial_path
from graphmill.journal.opening import fixed, open_store
from graphmill.journal.ports import Store
from graphmill.journal.records import RunRecord

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
NoJournal = Annotated[bool, typer.Option("--no-journal", help="Record nothing: it can not be resumed.")]
RunId = Annotated[
    str | None,
    typer.Option(
        "--run-id", metavar="ID", help="Record it under this id, or go on with the run of this id.", show_default=False
    ),
]


@contextmanager
def opened(journal: str | Path | None) -> Iterator[Store]:
    """Open a store that is there, and close it after use; none is made by being looked for."""
    store = open_store(journal, create=False)
    try:
        yield store
    finally:
        store.close()


def outer(context: typer.Context, name: str) -> Any:
    """Heed an option that stands before the second word of a command."""
    return None if context.parent is None else context.parent.params.get(name)


def journal_place(journal: str | None, run_id: str | None, *, no_journal: bool = False) -> str | Path | None:
    """Tell where a run is to be recorded, also if its functions change the working directory; None for nowhere."""
    if journal == "memory:":
        raise UsageError("a journal in memory is gone when the command ends; name a file, or say --no-journal")
    if no_journal and (run_id is not None or journal is not None):
        raise UsageError("--no-journal records nothing, and --run-id and --journal say where to record; leave one out")
    return None if no_journal else fixed(journal)


def require_two_files(source_name: str | None, output: str | None) -> None:
    """Refuse to write results over the items that are given."""
    if source_name != "-" and _is_over(source_name, output):
        raise UsageError(
            f"--source and --output are the same file, {source_name!r}; the results would replace the items"
        )


def require_workflow_kept(workflow: str | None, file: str | None) -> None:
    """Refuse to write results over the workflow that makes them."""
    if _is_over(workflow, file):
        raise UsageError(f"{file!r} is where the workflow stands, which the results would replace; name another file")


def require_other_file(run: RunRecord, file: str | None) -> None:
    """Refuse to write results over the items of a run, or over its workflow."""
    require_workflow_kept(run.manifest.get("graph", {}).get("path"), file)
    source = run.manifest.get("source")
    if isinstance(source, Mapping) and _is_over(source.get("path"), file):
        raise UsageError(
            f"{file!r} is where the items of run {run.id} come from, which the results would replace; name another file"
        )


def require_apart(file: str | None, journal: str | Path) -> None:
    """Refuse to write results over the journal, or over one of the files beside it."""
    if file is None or file == "-":
        return
    target, store = _real(file), _real(journal)
    if target.parent == store.parent and (target.name == store.name or target.name.startswith(f"{store.name}-")):
        raise UsageError(f"{file!r} is the journal itself, or belongs to it; name another file")


def _is_over(items: str | None, file: str | None) -> bool:
    """Tell whether results that are written to a file, whole or in part, would replace the items."""
    if items is None or file is None or file == "-":
        return False
    results = _real(file)
    return _real(items) in (results, partial_path(results))


def _real(path: str | Path) -> Path:
    """Follow links; unlike ``Path.resolve`` also where they lead in a circle."""
    return Path(os.path.realpath(path))
