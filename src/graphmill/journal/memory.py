"""A journal in memory, gone with its process: the reference that every other store is compared with."""

from __future__ import annotations

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, cast

from graphmill.core.errors import OwnedError, UnknownRunError, UsageError
from graphmill.core.json import canonical
from graphmill.journal.entry import to_entry
from graphmill.journal.last_step import in_order, last_step_of
from graphmill.journal.memory_run import KEEP, MemoryRun
from graphmill.journal.records import (
    Count,
    Entry,
    History,
    Notes,
    Outcome,
    Owner,
    Query,
    Request,
    ResultRow,
    Row,
    RunRecord,
    RunState,
    Spent,
    StepRow,
)
from graphmill.journal.run_id import new_run_id, require_run_id
from graphmill.journal.run_name import meant_run


class MemoryStore:
    """A store of plain dicts; one lock makes each call whole. ``clock`` gives seconds of wall time."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.name = "the journal in memory"
        self.archive = MemoryArchive(self)
        self.clock = clock
        self.lock = Lock()
        self.kept: dict[int, MemoryRun] = {}
        self._last = 0
        self._newest: str | None = None

    def create(self, run_id: str | None, manifest: Mapping[str, Any]) -> RunRecord:
        """Note a new run, running and without an owner."""
        if run_id is not None:
            require_run_id(run_id)
        with self.lock:
            ids = {run.record.id for run in self.kept.values()}
            if run_id in ids:
                raise UsageError(f"{self.name} holds a run {run_id} already; resume it, or give another id")
            now = self.clock()
            while run_id is None or run_id in ids:
                run_id = self._newest = new_run_id(now, self._newest)
            self._last += 1
            record = RunRecord(
                number=self._last,
                id=run_id,
                state=RunState.RUNNING,
                reason="",
                owner=None,
                epoch=0,
                generation=1,
                created_at=now,
                changed_at=now,
                elapsed_s=0.0,
                total=None,
                is_read=False,
                rows=0,
                manifest=json.loads(canonical(manifest)),
            )
            self.kept[self._last] = MemoryRun(record)
            return record

    def take(self, run_id: str) -> MemoryLedger:
        """Become the owner of a run."""
        with self.lock:
            run = next((run for run in self.kept.values() if run.record.id == run_id), None)
            if run is None:
                raise UnknownRunError(f"{self.name} holds no run {run_id!r:.80}")
            if run.is_owned:
                raise OwnedError(f"run {run_id} is under way in this process; cancel it first, or wait for its end")
            before, now = run.shown(), self.clock()
            owner = Owner(host=socket.gethostname(), pid=os.getpid(), since=now)
            run.is_owned = True
            run.requests.clear()
            elapsed_s = before.elapsed_at(now)
            run.record = replace(
                run.record,
                state=RunState.RUNNING,
                reason="",
                owner=owner,
                epoch=before.epoch + 1,
                changed_at=now,
                elapsed_s=elapsed_s,
            )
            return MemoryLedger(self, run, before)

    def size(self, run: RunRecord) -> int:
        """Tell about how many bytes a run takes."""
        with self.lock:
            kept = self.of(run)
            rows = [row for recorded in kept.results.values() for row, _ in recorded.values()]
            return sum(200 + sum(len(body or b"") for body in (row.input, row.output, row.error)) for row in rows)

    def prune(self, runs: Sequence[RunRecord]) -> int:
        """Forget these runs, but not one under way."""
        free = 0
        for run in runs:
            kept = self.kept.get(run.number)
            if kept is not None and not kept.is_owned:
                free += self.size(run)
                with self.lock:
                    self.kept.pop(run.number, None)
        return free

    def close(self) -> None:
        """Let go of nothing: a store in memory holds nothing else."""

    def of(self, run: RunRecord) -> MemoryRun:
        """Find what is kept of a run; the lock is held."""
        try:
            return self.kept[run.number]
        except KeyError:
            raise UnknownRunError(f"{self.name} no longer holds run {run.id}") from None


class MemoryLedger:
    """A run in the hands of its owner."""

    folder: Path | None = None

    def __init__(self, store: MemoryStore, run: MemoryRun, before: RunRecord) -> None:
        self.run = before
        self._store = store
        self._run = run
        self._epoch = run.record.epoch
        self._heard = 0

    @property
    def usage(self) -> Spent:
        """What all rows say was spent."""
        return self._run.record.usage

    def append(self, rows: Sequence[Row]) -> None:
        """Record these, all or none."""
        if strange := [row for row in rows if type(row) not in KEEP]:
            raise TypeError(f"{type(strange[0]).__name__} is not a row of the journal")
        with self._store.lock:
            self._hold()
            now = self._store.clock()
            for row in rows:
                KEEP[type(row)](self._run, cast("Any", row), now)
            self._run.record = replace(self._run.record, changed_at=now)

    def requests(self) -> Sequence[Request]:
        """Tell what was asked of the run since this was last called."""
        with self._store.lock:
            self._hold()
            heard, self._heard = self._heard, len(self._run.requests)
            return self._run.requests[heard:]

    def release(self) -> None:
        """Let others have the run."""
        with self._store.lock:
            if self._run.record.epoch == self._epoch:
                self._run.is_owned = False

    def _hold(self) -> None:
        if not self._run.is_owned or self._run.record.epoch != self._epoch:
            raise OwnedError(
                f"run {self.run.id} was released or taken by another owner; what it has not recorded by now is not recorded"
            )


class MemoryArchive:
    """What readers ask of a store in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def runs(self) -> Sequence[RunRecord]:
        """List the runs, oldest first."""
        with self._store.lock:
            return [run.shown() for run in self._store.kept.values()]

    def find(self, name: str) -> RunRecord:
        """Find a run by its id or the beginning of it."""
        runs = {run.id: run for run in self.runs()}
        return runs[meant_run(name, list(runs), store=self._store.name)]

    def counts(self, run: RunRecord) -> Sequence[Count]:
        """Count the current results."""
        with self._store.lock:
            counter = Counter(
                ((row.status, row.kind, row.generation), row.is_degraded) for row, _ in self._store.of(run).current()
            )
        return [Count(*found, number, is_degraded) for (found, is_degraded), number in counter.items()]

    def count_since(self, run: RunRecord, at: float) -> int:
        """Count the results since this time."""
        with self._store.lock:
            return sum(when >= at for recorded in self._store.of(run).results.values() for _, when in recorded.values())

    def entries(self, run: RunRecord, query: Query) -> Iterator[Entry]:
        """Read current results in input order."""
        with self._store.lock:
            kept = self._store.of(run)
            current, orphans = kept.current(), kept.orphans
        found = [recorded for recorded in current if _fits(recorded[0], query)]
        return (to_entry(row, at=at, is_orphaned=row.key in orphans) for row, at in found[: query.limit])

    def history(self, run: RunRecord, key: bytes) -> History:
        """Read everything about one item."""
        with self._store.lock:
            kept = self._store.of(run)
            recorded = sorted(kept.results.get(key, {}).items())
            entries = [to_entry(row, at=at, is_orphaned=key in kept.orphans) for _, (row, at) in recorded]
            notes = kept.notes(key)
            return History(
                entries=entries,
                wanted=kept.wanted.get(key, 0),
                attempts=notes.attempts,
                steps=in_order(notes.steps, _last_steps(row for _, (row, _) in recorded)),
                suspect=notes.suspect,
            )

    def lookup(self, run: RunRecord) -> MemoryLookup:
        """Prepare to look up many items of a run."""
        return MemoryLookup(self._store, run)

    def ask(self, run: RunRecord, request: Request) -> None:
        """Ask something of a live run."""
        with self._store.lock:
            self._store.of(run).requests.append(request)


class MemoryLookup:
    """What is recorded of a run's items."""

    def __init__(self, store: MemoryStore, run: RunRecord) -> None:
        self._store = store
        self._run = run

    def settled(self, keys: Sequence[bytes], contents: Sequence[bytes]) -> Sequence[int | None]:
        """Settle nothing: to ask for outcomes costs no more here."""
        return [None for _ in zip(keys, contents, strict=True)]

    def outcomes(self, keys: Sequence[bytes]) -> Mapping[bytes, Outcome]:
        """Tell which of these items have a result."""
        with self._store.lock:
            kept = self._store.of(self._run)
            newest = {key: kept.results[key][max(kept.results[key])][0] for key in keys if key in kept.results}
            return {
                key: Outcome(kept.rows[key], row.generation, row.status, row.content, kept.wanted.get(key, 0), row.kind)
                for key, row in newest.items()
            }

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """List the current results."""
        with self._store.lock:
            return iter([(row, key) for key, row in self._store.of(self._run).rows.items()])

    def notes(self, key: bytes) -> Notes:
        """Read what is recorded of an item beside its results."""
        with self._store.lock:
            return self._store.of(self._run).notes(key)

    def last_steps(self, key: bytes) -> Sequence[StepRow]:
        """Read the steps that an item's results hold."""
        with self._store.lock:
            recorded = self._store.of(self._run).results.get(key, {})
            return _last_steps(row for _, (row, _) in sorted(recorded.items()))

    def close(self) -> None:
        """There is nothing to let go of."""


def _last_steps(rows: Iterable[ResultRow]) -> list[StepRow]:
    return [step for row in rows if (step := last_step_of(row)) is not None]


def _fits(row: ResultRow, query: Query) -> bool:
    if query.is_degraded and not row.is_degraded:
        return False
    return (query.statuses is None or row.status in query.statuses) and (query.kinds is None or row.kind in query.kinds)
