"""The folder beside a store for what is worth nothing elsewhere: one folder in it for each run, while somebody is at work on that."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from graphmill.journal.flight import left_behind
from graphmill.journal.records import RunState
from graphmill.journal.sqlite.codes import STATES
from graphmill.journal.sqlite.files import make_private
from graphmill.journal.sqlite.owners import Owners
from graphmill.journal.sqlite.stored_run import StoredRun


class LocalFolder:
    """The local folder of the store at a path."""

    def __init__(self, store: str) -> None:
        self._path = Path(f"{store}-local")

    def of(self, run_id: str) -> Path:
        """Tell where the folder of a run is."""
        return self._path / run_id

    def make(self, run_id: str) -> Path:
        """Make the folder of a run."""
        make_private(self._path)
        make_private(self.of(run_id))
        return self.of(run_id)

    def remove(self, run_id: str, *, is_empty: bool = False) -> None:
        """Remove the folder of a run, or only one that is empty; and this one with the last of them."""
        with suppress(OSError):
            self.of(run_id).rmdir() if is_empty else shutil.rmtree(self.of(run_id))
            self._path.rmdir()

    def sweep(self, runs: Sequence[StoredRun], owners: Owners) -> None:
        """Remove what dead processes have left, but for what tells of a run that can be resumed which items were under way."""
        named = {run.name: run for run in runs}
        with suppress(OSError):
            for folder in list(self._path.iterdir()):
                run = named.get(folder.name)
                if run is not None and not _is_wanted(run, folder) and owners.take(run.number):
                    self.remove(run.name)
                    owners.release(run.number)


def _is_wanted(run: StoredRun, folder: Path) -> bool:
    return STATES[run.state] is not RunState.FINISHED and any(left_behind(file) for file in folder.iterdir())
