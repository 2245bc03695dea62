"""The items of a former run, each with its result, as items of another."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from graphmill.core.result import Result
from graphmill.datasets.row import row_of
from graphmill.journal.records import EVERYTHING
from graphmill.journal.store import fixed, open_store

PREFIX = "run:"
_OF_RESULT = ("status", "output", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerRun:
    """A recorded run, as a source of items in the order of its own."""

    run_id: str
    journal: str
    unit: str = "row"
    format: str = ""
    is_stored: bool = True
    is_remote: bool = False
    item_of: ClassVar[None] = None

    @classmethod
    def find(cls, name: str, journal: str | Path | None) -> FormerRun:
        """Find a run by its id or the beginning of it. UnknownRunError if there is none."""
        place = str(fixed(journal))
        with closing(open_store(place, create=False)) as store:
            return cls(run_id=store.archive.find(name).id, journal=place)

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"run {self.run_id}"

    def parts(self, most: int | None) -> Iterable[FormerRun]:  # noqa: ARG002  results are read lazily anyway
        """Return the run: it is one part."""
        return [self]

    def rows(self, on_bad: Callable[[ValueError], None]) -> Generator[tuple[int, Any], None, None]:  # noqa: ARG002
        """Read the items that have a result, lazily."""
        with closing(open_store(self.journal, create=False)) as store:
            entries = store.archive.entries(store.archive.find(self.run_id), EVERYTHING)
            for number, entry in enumerate(entries, start=1):
                yield number, _item_of(entry.result)

    def count(self) -> int:
        """Count the results."""
        with closing(open_store(self.journal, create=False)) as store:
            return sum(count.number for count in store.archive.counts(store.archive.find(self.run_id)))

    def note(self) -> dict[str, Any]:
        """Return what opens it again."""
        return {"path": f"{PREFIX}{self.run_id}", "journal": self.journal}

    def state(self) -> Any:
        """Return None: a run may get more results at any time."""


def _item_of(result: Result) -> dict[str, Any]:
    """Return the former input with the result in it; an input that is not a mapping becomes the field ``input``."""
    row = row_of(result)
    given = result.input if isinstance(result.input, Mapping) else {"input": result.input}
    return {**given, "id": result.job_id, "result": {name: row[name] for name in _OF_RESULT}}
