"""What the journal in memory keeps of one run, and how each kind of row changes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from graphmill.core.json import KEY_BYTES, canonical
from graphmill.core.usage import with_more
from graphmill.journal.records import (
    AttemptRow,
    Notes,
    OrphansRow,
    Request,
    ResultRow,
    RunRecord,
    RunRow,
    RunState,
    StepRow,
    SuspectRow,
    WantedRow,
)

Recorded = tuple[ResultRow, float]


@dataclass(slots=True)
class MemoryRun:
    """All that is kept of one run."""

    record: RunRecord
    results: dict[bytes, dict[int, Recorded]] = field(default_factory=dict)
    rows: dict[bytes, int] = field(default_factory=dict)
    steps: dict[tuple[bytes, int, str, bytes], StepRow] = field(default_factory=dict)
    attempts: dict[tuple[bytes, int, str, int], AttemptRow] = field(default_factory=dict)
    wanted: dict[bytes, int] = field(default_factory=dict)
    suspects: dict[bytes, SuspectRow] = field(default_factory=dict)
    orphans: frozenset[bytes] = frozenset()
    requests: list[Request] = field(default_factory=list)
    is_owned: bool = False

    def shown(self) -> RunRecord:
        """Give the record as readers see it."""
        is_dead = self.record.state.is_live and not self.is_owned
        state = RunState.INTERRUPTED if is_dead else self.record.state
        notes = len(self.attempts) + len(self.steps) + len(self.suspects)
        return replace(self.record, state=state, steps=len(self.steps), notes=notes, orphans=len(self.orphans))

    def notes(self, key: bytes) -> Notes:
        """Give what is recorded of an item beside its results."""
        return Notes(
            attempts=[row for place, row in sorted(self.attempts.items()) if place[0] == key],
            steps=sorted((row for place, row in self.steps.items() if place[0] == key), key=lambda row: row.generation),
            suspect=self.suspects.get(key),
        )

    def current(self) -> list[Recorded]:
        """Give the results of the highest generation, in input order."""
        newest = [recorded[max(recorded)] for recorded in self.results.values()]
        return sorted(newest, key=lambda recorded: recorded[0].position)


def _keep_result(run: MemoryRun, row: ResultRow, now: float) -> None:
    recorded = run.results.setdefault(row.key, {})
    run.rows.setdefault(row.key, len(run.rows))
    recorded[row.generation] = (row, now)
    run.record = replace(run.record, rows=run.record.rows + 1)
    _spend(run, row)


def _keep_step(run: MemoryRun, row: StepRow, _now: float) -> None:
    run.steps[row.key, row.generation, row.path, row.content] = row
    _spend(run, row)


def _keep_attempt(run: MemoryRun, row: AttemptRow, _now: float) -> None:
    run.attempts[row.key, row.generation, row.path, row.attempt] = row
    _spend(run, row)


def _spend(run: MemoryRun, row: ResultRow | StepRow | AttemptRow) -> None:
    if row.spent:
        run.record = replace(run.record, usage=with_more(run.record.usage, row.spent))


def _keep_wanted(run: MemoryRun, row: WantedRow, _now: float) -> None:
    run.wanted[row.key] = max(row.generation, run.wanted.get(row.key, 0))


def _keep_suspect(run: MemoryRun, row: SuspectRow, _now: float) -> None:
    run.suspects[row.key] = row


def _keep_orphans(run: MemoryRun, row: OrphansRow, _now: float) -> None:
    if any(len(key) != KEY_BYTES for key in row.keys):
        raise ValueError(f"the key of an orphan has {KEY_BYTES} bytes")
    run.orphans = frozenset(row.keys)


def _keep_change(run: MemoryRun, row: RunRow, _now: float) -> None:
    was = run.record
    run.record = replace(
        was,
        state=was.state if row.state is None else row.state,
        reason=was.reason if row.reason is None else row.reason,
        total=was.total if row.total is None else row.total,
        is_read=was.is_read if row.is_read is None else row.is_read,
        elapsed_s=was.elapsed_s + row.more_s,
        generation=was.generation if row.generation is None else row.generation,
        manifest=was.manifest if row.manifest is None else json.loads(canonical(row.manifest)),
    )


KEEP: Mapping[type, Callable[[MemoryRun, Any, float], None]] = {
    ResultRow: _keep_result,
    StepRow: _keep_step,
    AttemptRow: _keep_attempt,
    WantedRow: _keep_wanted,
    SuspectRow: _keep_suspect,
    OrphansRow: _keep_orphans,
    RunRow: _keep_change,
}
