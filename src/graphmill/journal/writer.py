"""Writes a run down while it runs: one thread that commits whatever is there as soon as it is free."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any

import msgspec

from graphmill.core.errors import GraphmillError, InternalError, JournalError, describe_error
from graphmill.core.job import Job
from graphmill.core.result import WAITING, Failure, Result, Status, StopReason
from graphmill.core.usage import RunUsage, Usage, add_by_model, model_of, spent_nano
from graphmill.engine.attempts.threads import Mailbox
from graphmill.engine.results.recorder import (
    GATHER_S,
    BrokenCallback,
    CommittedCallback,
    LastStep,
    LiveState,
    Recall,
    RequestCallback,
    StepOutcome,
)
from graphmill.journal.bodies import failure_body, failure_from, more_body, usage_body, usage_from, with_body
from graphmill.journal.intake import Intake
from graphmill.journal.records import (
    CANCELLED,
    FINISHED,
    HELD,
    RECORD_PROMPTS,
    RUNNING,
    SOURCE_FAILED,
    STOPPING,
    AttemptRow,
    CallRow,
    OrphansRow,
    ResultRow,
    Row,
    RunRecord,
    RunRow,
    RunState,
    RunStatus,
    Spent,
    StepRow,
    SuspectRow,
)
from graphmill.journal.resume import NOT_COUNTED
from graphmill.journal.scratch import HeldFile, InFlightFile, PageFile
from graphmill.journal.store import Ledger

LOOK_S = 0.5
MOST_ROWS_AT_ONCE = 1000
_CLOSE_S = 30.0


class JournalWriter:
    """Writes one run down for its owner; the engine's Recorder.

    ``pending_manifest`` is stored once an item starts.
    """

    is_recording = True
    accept = staticmethod(with_body)

    def __init__(
        self,
        ledger: Ledger,
        run: RunRecord,
        intake: Intake,
        in_flight: InFlightFile,
        held: HeldFile,
        *,
        total: int | None,
        done: Mapping[Status, int],
        suspects: int,
    ) -> None:
        self.pending_manifest: Mapping[str, Any] = {}
        self._ledger = ledger
        self._run = run
        self.run_id = run.id
        self.created_at = run.created_at
        self._intake = intake
        self._records = intake.records
        self._in_flight = in_flight
        self._held = held
        self._held_nano = 0
        self.jobs = intake.series()
        self.total = total
        self.done = done
        self.suspects = suspects
        self._rows: deque[Row] = deque()
        self._spent: dict[str, Spent] = {}  # by job: what its next row is to tell
        self._calls: dict[str, list[CallRow]] = {}  # by job: of steps that have not ended
        self._waiting = 0
        self._number = 0
        self._committed = 0
        self._due = 0
        self._gathering: asyncio.TimerHandle | None = None
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._looked_at = monotonic()
        self._is_closing = False
        self._is_idle = False
        self._records_calls = run.options.get(RECORD_PROMPTS, True)
        self._error: GraphmillError | None = None
        self._thread = Thread(target=self._work, name="graphmill-journal", daemon=True)

    def open(self, *, committed: CommittedCallback, broken: BrokenCallback, asked: RequestCallback) -> None:
        """Start the thread."""
        calls: dict[str, Callable[..., None]] = {"committed": committed, "broken": broken, "asked": asked}
        self._loop = asyncio.get_running_loop()
        self._mailbox = Mailbox(self._loop, lambda letter: calls[letter[0]](*letter[1:]))
        self._thread.start()

    def begin(self, job: Job, attempt: int, path: str = "") -> int:
        """Note that an item starts; an unsafe one waits until that is durable."""
        if self.pending_manifest:
            self._note_manifest(self.pending_manifest)
            self.pending_manifest = {}
        record = self._records[job.id]
        self._in_flight.enter(record.key)
        if job.effect != "unsafe" and not path:
            return 0
        return self._put(AttemptRow(record.key, record.generation, path, attempt, None, None))

    def fail(self, job: Job, attempt: int, failure: Failure, path: str = "", *, usage: Usage | None = None) -> int:
        """Note a failed attempt; one that does not count, such as a throttled one, leaves no row if it used nothing."""
        if not path:
            self.leave(job)
        if failure.kind in NOT_COUNTED and not path and job.effect != "unsafe" and usage is None:
            return 0
        record, spent = self._records[job.id], None
        if usage is not None:
            spent = self._spent.pop(job.id, None)
        error = failure_body(failure)
        row = AttemptRow(record.key, record.generation, path, attempt, failure.kind, error, usage_body(usage), spent)
        return self._put(*self._calls_of(job, path), row)

    def spend(self, job: Job, spender: str, usage: Usage) -> None:
        """Hold usage for the job's next row."""
        if job.id in self._records:
            before = self._spent.get(job.id)
            if before is None:
                self._spent[job.id] = {spender: usage}
            else:
                self._spent[job.id] = add_by_model(before, {spender: usage})

    def save_committed(self, nano: int) -> None:
        """Note what the run counts as spent if it dies now."""
        self._held_nano = nano
        self._held.write(nano)

    def record_call(self, job: Job, path: str, encode: Callable[[], bytes]) -> None:
        """Hold a call's row until that of its step, unless the run records none, or its item is done.

        Both become durable at once: a call whose step is not durable will be made again, and must not be there twice.
        """
        record = self._records.get(job.id)
        if record is not None and self._records_calls:
            self._calls.setdefault(job.id, []).append(CallRow(record.key, record.generation, path, encode))

    def _calls_of(self, job: Job, path: str) -> list[CallRow]:
        """Take the calls of a step that are held."""
        held = self._calls.pop(job.id, [])
        others = [call for call in held if call.path != path]
        if others:
            self._calls[job.id] = others
            return [call for call in held if call.path == path]
        return held

    @property
    def usage(self) -> Spent:
        """What durable rows of this and earlier processes have spent."""
        return RunUsage(self._ledger.usage)

    def recall(self, job: Job) -> Recall | None:
        """Return what earlier processes have recorded of a job's steps; None if nothing."""
        valid = self._records[job.id].valid
        if not (valid.steps or valid.intended or valid.failed):
            return None
        outcomes = {(step.path, step.content): _outcome(order, step) for order, step in enumerate(valid.steps)}
        since = sum(step.generation < valid.since for step in valid.steps)
        before_s = max((step.began_s + step.duration_s for step in valid.steps), default=0.0)
        return Recall(outcomes, set(valid.intended), dict(valid.failed), since, before_s)

    def step(self, job: Job, path: str, content: bytes, outcome: StepOutcome) -> int:
        """Queue a step's row. An item that makes progress did not kill the process."""
        record = self._records[job.id]
        if record.is_suspected:
            self._records[job.id] = msgspec.structs.replace(record, is_suspected=False)
            self._put(SuspectRow(record.key, 0, 0))
        error = None if outcome.failure is None else failure_body(outcome.failure)
        row = StepRow(
            record.key, record.generation, path, content, outcome.attempts, outcome.duration_s, outcome.body, error
        )
        spent = self._spent.pop(job.id, None)
        row = row._replace(usage=usage_body(outcome.usage), began_s=outcome.began_s, spent=spent)
        return self._put(*self._calls_of(job, path), row)

    def remember(self, job: Job, path: str, content: bytes, body: bytes, *, is_temporary: bool) -> int:
        """Queue a note's row."""
        record = self._records[job.id]
        output: bytes | None = body
        error: bytes | None = None
        if is_temporary:
            output, error = None, body
        return self._put(StepRow(record.key, record.generation, path, content, 0, 0.0, output, error))

    def spill(self) -> PageFile | None:
        """Let a job spill to a file beside the store, if that is on this machine."""
        folder = self._ledger.folder
        if folder is None:
            return None
        return PageFile(folder)

    def finish(self, job: Job, result: Result, body: Any, last: LastStep | None = None) -> int:
        """Queue the result's row, which holds the last step too; ``hurry`` writes it."""
        record, error = self._records.pop(job.id), result.error
        if last is not None and record.is_suspected:
            self._put(SuspectRow(record.key, 0, 0))
        self._waiting += result.status is WAITING
        spent = self._spent.pop(job.id, None) if self._spent else None
        is_plain = last is None and result.usage is None and not result.metadata and not spent
        if error is None:
            kind = said = None
        else:
            kind, said = error.kind, failure_body(error)
        calls = self._calls.pop(job.id, ()) if self._calls else ()
        self._number += 1 + len(calls)
        row = ResultRow(
            record.key,
            record.generation,
            job.id,
            record.position,
            record.content,
            result.status,
            kind,
            result.attempts,
            result.queued_s,
            result.duration_s,
            record.body,
            body,
            said,
            None if is_plain else more_body(result, last, spent),
            not is_plain and result.is_degraded,
            spent,
            not is_plain and result.is_partial,
        )
        self._rows.extend((*calls, row))
        return self._number

    def hurry(self) -> None:
        """Let the thread write all that is there."""
        self._due = self._number
        if self._is_idle:
            self._is_idle = False
            self._bell.put(None)

    def leave(self, job: Job) -> None:
        """Note that an item no longer runs."""
        self._in_flight.leave(self._records[job.id].key)

    @property
    def traced(self) -> str | None:
        """The span of the process that had the run before."""
        return self._run.manifest.get("traced")

    def note(
        self,
        *,
        state: LiveState | None = None,
        limit: int | None = None,
        adaptive: bool | None = None,
        traced: str | None = None,
        waits: str | None = None,
    ) -> None:
        """Store it for other processes."""
        if state is not None:
            self._put(RunRow(status=_LIVE[state]))
        if limit is not None:
            policy = {**self._run.policy, "concurrency": limit}
            if adaptive is not None:
                policy["adaptive"] = adaptive
            self._note_manifest({"policy": policy})
        if traced is not None:
            self._note_manifest({"traced": traced})
        if waits is not None:
            self._put(RunRow(reason=waits))

    def _note_manifest(self, now: Mapping[str, Any]) -> None:
        self._run = replace(self._run, manifest={**self._run.manifest, **now})
        self._put(RunRow(manifest=self._run.manifest))

    def abandon(self) -> None:
        """Release a run that was taken and not started."""
        self._let_go()
        self._in_flight.close()

    async def close(
        self, *, stopped: str | None, because: str, is_refused: bool, is_read: bool, elapsed_s: float
    ) -> None:
        """Write what is left and how the run ended, and release it; do not wait for a store that hangs."""
        # What a retry leaves may still have items that were never reached.
        is_whole = self._intake.is_whole or self._run.is_read
        waiting = self._waiting + self.done.get(WAITING, 0)
        status = _final_status(stopped, because, is_refused=is_refused, is_whole=is_whole, waiting=waiting)
        reason = because
        if not because and status.state is RunState.PAUSED:
            reason = _left(waiting, is_whole=is_whole)
        self._ending = RunRow(status=status, reason=reason, more_s=elapsed_s)
        self._is_read = is_read and stopped is None and not because
        for calls in self._calls.values():
            self._put(*calls)
        self._calls.clear()
        self._is_closing = True
        if self._gathering is not None:
            self._gathering.cancel()
        self._due = self._number
        self._bell.put(None)
        await asyncio.to_thread(self._thread.join, _CLOSE_S)
        self._in_flight.close()  # however it ended, it was no death
        if spent_nano(self._ledger.usage) >= self._held_nano:  # else rows that tell what was spent are not written
            self._held.close()
        if self._error is not None:
            raise self._error
        if self._thread.is_alive():
            raise JournalError(f"the journal did not respond within {_CLOSE_S:g} s; resume the run from what it holds")

    def _put(self, *rows: Row) -> int:
        """Queue rows that become durable at once: calls, and what they belong to."""
        self._number += len(rows)
        self._rows.extend(rows)
        if self._gathering is None:
            self._gathering = self._loop.call_later(GATHER_S, self._gathered)
        return self._number

    def _gathered(self) -> None:
        self._gathering = None
        if self._due < self._number:
            self.hurry()

    def _work(self) -> None:
        try:
            self._serve()
            self._end()
        except BaseException as error:  # noqa: BLE001  nobody else would see it
            self._error = error if isinstance(error, GraphmillError) else _fault(error)
            self._mailbox.post(("broken", self._error))
        finally:
            self._let_go()

    def _serve(self) -> None:
        """Commit rows as they come; look for requests now and then."""
        while not self._is_closing or self._rows:
            if self._committed < self._due:
                self._commit()
            else:
                self._sleep()
            if monotonic() - self._looked_at >= LOOK_S:
                self._looked_at = monotonic()
                for request in self._ledger.requests():
                    self._mailbox.post(("asked", *request))

    def _sleep(self) -> None:
        self._is_idle = True  # first: whoever is in a hurry from here on rings
        if self._committed >= self._due and not self._is_closing:
            with suppress(Empty):
                self._bell.get(timeout=LOOK_S)
        self._is_idle = False

    def _commit(self) -> None:
        take = self._rows.popleft
        rows = [take() for _ in range(min(len(self._rows), MOST_ROWS_AT_ONCE))]
        while self._rows and type(rows[-1]) is CallRow:
            rows.append(take())
        self._ledger.append(rows)
        self._committed += len(rows)
        self._mailbox.post(("committed", self._committed))

    def _end(self) -> None:
        """Write how the run ended and, if its source was read to the end, what it held."""
        ending: list[Row] = [self._ending]
        if self._is_read and self._intake.is_whole:
            manifest = {**self._run.manifest, "input": {"items": self._intake.count, "hash": self._intake.input_hash}}
            orphans = self._intake.orphans()
            ending = [
                OrphansRow(orphans),
                self._ending._replace(is_read=True, total=self._intake.count + len(orphans), manifest=manifest),
            ]
        self._ledger.append(ending)

    def _let_go(self) -> None:
        self._intake.close()
        with suppress(GraphmillError):
            self._ledger.release()


def _outcome(order: int, step: StepRow) -> StepOutcome:
    if step.is_note:
        return StepOutcome(step.noted, None, attempts=0, order=order)
    failure, models = None, tuple(dict.fromkeys(map(model_of, step.spent or ())))
    if step.error is not None:
        failure, models = failure_from(step.error), ()
    return StepOutcome(
        step.output, failure, step.attempts, step.duration_s, usage_from(step.usage), step.began_s, order, models
    )


def _fault(error: BaseException) -> InternalError:
    fault = InternalError(f"the journal's thread failed: {describe_error(error)}")
    fault.__cause__ = error
    return fault


def _left(waiting: int, *, is_whole: bool) -> str:
    """Say why a run that nobody stopped is not finished."""
    reasons = []
    if waiting:
        reasons.append("1 item waits for an answer" if waiting == 1 else f"{waiting:,} items wait for an answer")
    if not is_whole:
        reasons.append("some items have not run")
    return " and ".join(reasons)


_LIVE = {"running": RUNNING, "paused": HELD, "stopping": STOPPING}


def _final_status(stopped: str | None, because: str, *, is_refused: bool, is_whole: bool, waiting: int) -> RunStatus:
    if is_refused:
        return RunStatus(RunState.PAUSED, "error")
    if stopped is None and because:
        return SOURCE_FAILED
    if stopped is None:
        if is_whole and not waiting:
            return FINISHED
        return RunStatus(RunState.PAUSED, "question" if waiting else "request")
    reason = StopReason(stopped)
    if reason is StopReason.CANCELLED:
        return CANCELLED
    if reason.is_pause:
        return RunStatus(RunState.PAUSED, str(reason))
    return RunStatus(RunState.FAILED, str(reason))
