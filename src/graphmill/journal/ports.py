"""What a store must be able to do: for the one process that runs a run, and for everybody who reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from graphmill.journal.records import (
    Count,
    Entry,
    History,
    Notes,
    Outcome,
    Query,
    Request,
    Row,
    RunRecord,
    Spent,
    StepRow,
)


class Ledger(Protocol):
    """A run in the hands of its owner, from ``Store.take`` to ``release``. Its calls block; one thread makes them.

    Every write is fenced: once another owner has taken the run (a higher epoch), OwnedError.
    """

    @property
    def run(self) -> RunRecord:
        """The run as it was when it was taken; its owner is the one before, if any."""

    @property
    def folder(self) -> Path | None:
        """Where on this machine to keep what is worth nothing elsewhere; None if nowhere."""

    @property
    def usage(self) -> Spent:
        """What all rows of the run that are durable say was spent; may be read by any thread."""

    def append(self, rows: Sequence[Row]) -> None:
        """Make these durable, all or none, in this order. No result and no step comes twice."""

    def requests(self) -> Sequence[Request]:
        """Tell what was asked of the run since this was last called."""

    def release(self) -> None:
        """Let others have the run; what is not appended by now is not recorded."""


class Lookup(Protocol):
    """What is recorded of a run's items, for whoever goes on with it: the results are those that were there when it was first asked.

    Not for two threads at once.
    """

    def settled(self, keys: Sequence[bytes], contents: Sequence[bytes]) -> Sequence[int | None]:
        """Give the rows, as in an Outcome, of those that stand: they have succeeded with this content, and nothing more is wanted of them.

        None for any other, and for one of which that can not be told at once: its outcome says what it is.
        """

    def outcomes(self, keys: Sequence[bytes]) -> Mapping[bytes, Outcome]:
        """Tell which of these items have a result."""

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """List the current results: the row, as in an Outcome, and the item's key."""

    def notes(self, key: bytes) -> Notes:
        """Read what is recorded of an item beside its results."""

    def last_steps(self, key: bytes) -> Sequence[StepRow]:
        """Read the steps that an item's results hold, by generation."""

    def close(self) -> None:
        """Let go of the disk."""


class Archive(Protocol):
    """What readers ask; from any thread, while others write. Damage is a DamagedError that names the row."""

    def runs(self) -> Sequence[RunRecord]:
        """List the runs, oldest first."""

    def find(self, name: str) -> RunRecord:
        """Find a run by its id or the beginning of it; UnknownRunError names what is near or ambiguous."""

    def counts(self, run: RunRecord) -> Sequence[Count]:
        """Count the current results."""

    def count_since(self, run: RunRecord, at: float) -> int:
        """Count the results, of all generations, that were committed since this time: an estimate, for which no row is checked."""

    def entries(self, run: RunRecord, query: Query) -> Iterator[Entry]:
        """Read current results in input order, lazily; each row is checked."""

    def history(self, run: RunRecord, key: bytes) -> History:
        """Read everything about one item."""

    def lookup(self, run: RunRecord) -> Lookup:
        """Prepare to look up many items of a run."""

    def ask(self, run: RunRecord, request: Request) -> None:
        """Ask something of a live run."""


class Store(Protocol):
    """A place where runs are kept."""

    @property
    def archive(self) -> Archive:
        """What readers ask."""

    @property
    def name(self) -> str:
        """What messages call it, such as its path."""

    @property
    def file(self) -> Path | None:
        """The file beside which the cache belongs; None if there is none that lasts."""

    def create(self, run_id: str | None, manifest: Mapping[str, Any]) -> RunRecord:
        """Note a new run, running and without an owner; UsageError if the id is taken. Without an id it is given one."""

    def take(self, run_id: str) -> Ledger:
        """Become the owner of a run; OwnedError names the present one. A dead owner's run can be taken.

        The run's rows are compared with what was counted: DamagedError if something is missing.
        """

    def size(self, run: RunRecord) -> int:
        """Tell about how many bytes a run takes."""

    def prune(self, runs: Sequence[RunRecord]) -> int:
        """Forget these runs, but not one under way; tell how many bytes are free again. Readers are not stopped."""

    def close(self) -> None:
        """Let go of everything."""
