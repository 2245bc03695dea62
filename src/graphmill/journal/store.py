"""What a store must be able to do, and which one to open: a path, a URL, or the default one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from graphmill.core.errors import UnknownRunError, UsageError
from graphmill.core.suggest import suggestion
from graphmill.journal.records import (
    Entry,
    ItemHistory,
    ItemNotes,
    Query,
    RecordedOutcome,
    ResultCount,
    Row,
    RunRecord,
    RunRequest,
    Spent,
    StepRow,
)
from graphmill.journal.sqlite.store import SqliteStore, TemporaryStore


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

    def requests(self) -> Sequence[RunRequest]:
        """Return the requests made since the last call."""

    def release(self) -> None:
        """Let others have the run; what is not appended by now is not recorded."""


class ItemLookup(Protocol):
    """What is recorded of a run's items: the results are those that were there at the first call.

    Not for two threads at once.
    """

    def settled(self, keys: Sequence[bytes], contents: Sequence[bytes]) -> Sequence[int | None]:
        """Return the rows of items whose result succeeded with this content and is the one wanted.

        None for any other, and where that is not known at once: ``outcomes`` tells.
        """

    def outcomes(self, keys: Sequence[bytes]) -> Mapping[bytes, RecordedOutcome]:
        """Return which of these items have a result."""

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """List the current results: the row, as in a RecordedOutcome, and the item's key."""

    def notes(self, key: bytes) -> ItemNotes:
        """Read what is recorded of an item beside its results."""

    def last_steps(self, key: bytes) -> Sequence[StepRow]:
        """Read the steps that an item's results hold, by generation."""

    def close(self) -> None:
        """Close the connection."""


class Archive(Protocol):
    """What readers ask; from any thread, while others write. Damage is a DamagedError that names the row."""

    def runs(self) -> Sequence[RunRecord]:
        """List the runs, oldest first."""

    def find(self, name: str) -> RunRecord:
        """Find a run by its id or the beginning of it; UnknownRunError names what is near or ambiguous."""

    def counts(self, run: RunRecord) -> Sequence[ResultCount]:
        """Count the current results."""

    def count_since(self, run: RunRecord, at: float) -> int:
        """Count the results, of all generations, committed since this time: an estimate, without checking rows."""

    def entries(self, run: RunRecord, query: Query) -> Iterator[Entry]:
        """Read current results in input order, lazily; each row is checked."""

    def history(self, run: RunRecord, key: bytes, *, with_calls: bool = False) -> ItemHistory:
        """Read everything about one item; its calls of models only if they are wanted."""

    def histories(self, run: RunRecord, query: Query, *, with_calls: bool = True) -> Iterator[ItemHistory]:
        """Read everything about the items of current results, in input order, lazily; each costs the same."""

    def lookup(self, run: RunRecord) -> ItemLookup:
        """Prepare to look up many items of a run."""

    def ask(self, run: RunRecord, request: RunRequest) -> None:
        """Ask something of a live run."""


class Store(Protocol):
    """A place that holds runs."""

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
        """Create a run without an owner; UsageError if the id is taken. Without an id it is given one."""

    def take(self, run_id: str) -> Ledger:
        """Become the owner of a run; OwnedError names the present one. A dead owner's run can be taken.

        The run's rows are compared with what was counted: DamagedError if something is missing.
        """

    def size(self, run: RunRecord) -> int:
        """Estimate how many bytes a run takes."""

    def prune(self, runs: Sequence[RunRecord]) -> int:
        """Forget these runs, but not one under way; return how many bytes are free again. Readers are not stopped."""

    def close(self) -> None:
        """Close everything."""


VARIABLE = "GRAPHMILL_JOURNAL"
BESIDE_THE_PROJECT = ".graphmill/runs.db"
_IN_MEMORY = "memory:"
_LATER = ("postgresql", "postgres")
_SCHEMES = ("memory", "postgresql", "sqlite")


def open_store(url: str | Path | None = None, *, create: bool = True) -> Store:
    """Open a journal: a path, ``sqlite:///path`` (four slashes for an absolute one) or ``memory:``.

    The default is the variable GRAPHMILL_JOURNAL, else ``.graphmill/runs.db``. A missing one is created or, without
    ``create``, an UnknownRunError.
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
            raise UnknownRunError(f"no runs here yet: no journal {str(path.absolute())!r}; name another with --journal")
    except OSError as error:  # such as a name that no file system takes
        raise UsageError(f"cannot open the journal {name!r}: {error.strerror}") from error
    return SqliteStore(path)


def default_journal() -> str:
    """Return which journal is meant where none is named."""
    return os.environ.get(VARIABLE) or BESIDE_THE_PROJECT


def fixed(url: str | Path | None = None) -> str | Path:
    """Make a journal's path absolute now: a function may change the working directory."""
    name = url or default_journal()
    if name == _IN_MEMORY:
        return name
    if isinstance(name, str):
        name = _path(name)
    return Path(name).absolute()


def _path(name: str) -> str:
    """Return the path in a URL; what names no scheme is one."""
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
