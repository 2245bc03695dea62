"""Whether rows are still what was written: nothing that is read from the database is believed before this."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from marshal import dumps
from typing import TypeVar
from zlib import crc32

from graphmill.core.errors import DamagedError
from graphmill.journal.entry import to_entry
from graphmill.journal.last_step import last_step_of
from graphmill.journal.records import Entry, Notes, RunRecord, StepRow, SuspectRow
from graphmill.journal.sqlite.faults import damaged
from graphmill.journal.sqlite.rows import (
    HEAD,
    PACKING,
    STEP_HEAD,
    Stored,
    decode_attempt,
    decode_result,
    decode_step,
    is_sealed,
)
from graphmill.journal.sqlite.stored_run import StoredRun

T = TypeVar("T")


class Checks:
    """Decodes the rows of one run; DamagedError names the first that is not what was written."""

    def __init__(self, name: str, run: RunRecord) -> None:
        self._name = name
        self._run = run

    def heads(self, found: Iterable[Stored]) -> Iterator[Stored]:
        """Let through results without their bodies, each followed by its seal and row number."""
        for head in found:
            if head[HEAD] != crc32(dumps(head[:HEAD], PACKING)):  # seal_of, without a call
                raise self.damaged_row("results", head[HEAD + 1])
            yield head

    def step_heads(self, found: Iterable[Stored]) -> Iterator[Stored]:
        """Let through steps without their bodies, each followed by its seal and row number."""
        for head in found:
            if head[STEP_HEAD] != crc32(dumps(head[:STEP_HEAD], PACKING)):
                raise self.damaged_row("steps", head[STEP_HEAD + 1])
            yield head

    def all_heads(self, found: Iterable[Stored], run: StoredRun) -> Iterator[Stored]:
        """Let through all of a run: at the end they must have been as many as were written."""
        count = 0
        for head in self.heads(found):
            count += 1
            yield head
        if count != run.rows:
            raise damaged(
                self._name, f"the number of results of run {run.name} ({count}, where {run.rows} were written)"
            )

    def notes(self, *, attempts: Iterable[Stored], steps: Iterable[Stored], suspects: Iterable[Stored]) -> Notes:
        """Decode what is recorded of an item beside its results."""
        return Notes(
            attempts=self._decoded(attempts, decode_attempt, "attempts"),
            steps=self._decoded(steps, decode_step, "steps"),
            suspect=next((SuspectRow(*row[1:4]) for row in self._sealed(suspects, "suspects")), None),
        )

    def wanted(self, found: Iterable[Stored]) -> dict[bytes, int]:
        """Decode which generations are wanted at least, by key."""
        return {key: generation for _, key, generation, _ in self._sealed(found, "wanted")}

    def entry(self, stored: Stored, orphans: frozenset[bytes]) -> Entry:
        """Decode a whole result."""
        ((row, at),) = self._decoded([stored], decode_result, "results")
        try:
            return to_entry(row, at=at, is_orphaned=row.key in orphans)
        except (KeyError, TypeError, ValueError) as error:
            raise self.damaged_row("results", stored[0], row.item_id) from error

    def last_steps(self, stored: Sequence[Stored]) -> list[StepRow]:
        """Decode the steps that whole results hold."""
        steps = []
        for row, (result, _) in zip(stored, self._decoded(stored, decode_result, "results"), strict=True):
            try:
                steps.append(last_step_of(result))
            except (KeyError, TypeError, ValueError) as error:
                raise self.damaged_row("results", row[0], result.item_id) from error
        return [step for step in steps if step is not None]

    def damaged_row(self, table: str, row: int, item_id: str | None = None) -> DamagedError:
        """Say which row is not what was written, and of which item it is."""
        item = "" if item_id is None else f", item {item_id!r:.80}"
        return damaged(self._name, f"row {row} of {table} (run {self._run.id}{item})")

    def _decoded(self, found: Iterable[Stored], decode: Callable[[Stored], T | None], table: str) -> list[T]:
        """Decode rows that begin with their number."""
        decoded = []
        for number, *values in found:
            row = decode(tuple(values)) if values[0] == self._run.number else None
            if row is None:
                item_id = values[HEAD + 6] if table == "results" else None  # it may itself be what is damaged
                raise self.damaged_row(
                    table, number, item_id.decode(errors="replace") if isinstance(item_id, bytes) else None
                )
            decoded.append(row)
        return decoded

    def _sealed(self, found: Iterable[Stored], table: str) -> list[Stored]:
        rows = list(found)
        if not all(map(is_sealed, rows)):
            raise damaged(self._name, f"a row of {table} (run {self._run.id})")
        return rows
