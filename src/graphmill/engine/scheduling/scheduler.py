"""What starts next, what is in the window, when the run has to stop: decided purely; others act on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphmill.core.errors import DuplicateIdError, UsageError
from graphmill.core.job import Effect, Job, position_of_row
from graphmill.core.result import (
    CANCELLED,
    FAILED,
    PENDING,
    SUCCEEDED,
    TIMED_OUT,
    WAITING,
    Failure,
    Kind,
    Result,
    StopReason,
)
from graphmill.engine.jobs.state import JobEnd, JobRecord, JobState
from graphmill.engine.policy import Policy, require_count, require_window
from graphmill.engine.scheduling.lanes import Lanes, SlotRequest, rank

SHARE_COUNTS_FROM = 20
_STATUS = {Kind.TIMEOUT: TIMED_OUT, Kind.CANCELLED: CANCELLED, Kind.PAUSED: PENDING}


class Scheduler:
    """The state of a run and the rules over it. It holds no clock and no loop: every event brings its time."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._jobs: dict[str, JobState] = {}
        self.limit = policy.slots
        self.window = policy.window_for(self.limit)  # how many jobs may be unfinished at once
        self.lanes = Lanes(policy, self.limit)
        self.uncommitted = UncommittedWrites()
        self.failures = FailureCount(policy)
        self.stop_failure: Failure | None = None  # once the run stops: how everything that has not ended ends
        self.holds = Holds()
        self.queued = 0
        self.running = 0
        self.retrying = 0
        self.active = 0  # jobs without a result

    # -- the window ----------------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> int:
        """Jobs in the window: those without a result, and those whose result has not been taken."""
        return len(self._jobs)

    def admit(self, job: Job, *, position: int, now: float) -> JobState:
        """Take a job into the window and queue it."""
        if not isinstance(job, Job):
            raise UsageError(f"expected a Job, got {type(job).__name__}; for plain items use gm.batch(function, items)")
        earlier = self._jobs.get(job.id)
        if earlier is not None:
            raise DuplicateIdError(job.id, first=earlier.position, second=position)
        lane = self.lanes.get(job.key)
        state = JobState(job, lane, position=position, rank=rank(admitted_at=now, priority=job.priority), now=now)
        state.entry = SlotRequest(lane, state.rank, position, state)
        self._jobs[job.id] = state
        self.active += 1
        self.lanes.join(lane)
        self.enqueue(state.entry)
        return state

    def release(self, job_id: str) -> None:
        """Forget a job whose result was taken: its place in the window is free."""
        del self._jobs[job_id]

    def find(self, job_id: str) -> JobState | None:
        """Return a job of the window."""
        return self._jobs.get(job_id)

    def find_named(self, name: str) -> JobState | None:
        """Return the unfinished job that a person means: by its id, its row number, or the only one that begins so."""
        job = self._jobs.get(name)
        if job is not None or not name:
            return job
        position = position_of_row(name)
        if position is None:
            found = [job for job in self._jobs.values() if job.job.id.startswith(name) and not job.is_finished]
        else:
            found = [job for job in self._jobs.values() if job.source_position == position and not job.is_finished]
        if len(found) == 1:
            return found[0]
        return None

    def position_of(self, job_id: str) -> int:
        """Return which of all jobs one in the window is, from 0."""
        return self._jobs[job_id].position

    def begun(self) -> list[JobState]:
        """Return all jobs that have begun and have no result."""
        return [job for job in self._jobs.values() if job.main is not None]

    # -- slots ---------------------------------------------------------------------------------------------------------

    def enqueue(self, request: SlotRequest) -> None:
        """Queue a request for a slot."""
        self.queued += 1
        self.lanes.push(request)

    def dequeue(self, request: SlotRequest) -> None:
        """Remove a queued request."""
        if self.stop_failure is None:  # else all were removed together
            self.queued -= 1
            self.lanes.remove(request)

    def start_next(self, now: float) -> SlotRequest | None:
        """Return the next request to get its slot: nested calls first, then by rank among lanes that may start one."""
        request = self.lanes.pop_next(now, has_slot=self.queued > 0 and self.has_slot())
        if request is not None and request.owner is not None:
            self.queued -= 1
        return request

    def opens_at(self, now: float) -> float | None:
        """Return when a lane that now lets nothing start will do so by itself; None if none will."""
        return self.lanes.opens_at(now, has_slot=self.queued > 0 and self.has_slot())

    def start_first_step(self, request: SlotRequest, job: JobState, now: float) -> bool:
        """Grant the first step of a job that just began its slot, if it is next in turn; return whether it is."""
        if not self.has_slot() or not request.lane.can_start_now(request, now):
            return False
        self.occupy(request, job, now)
        return True

    def keep_slot(self, slot: SlotRequest, key: str, now: float) -> bool:
        """Keep the slot of a successful step for the next one, if that is first in turn; return whether it is."""
        lane = slot.lane
        if lane.key != key or not lane.can_keep_slot or not self.has_slot(returned=1):
            return False
        if self.lanes.has_step_before(slot):
            return False
        lane.note_success(now)
        return True

    def occupy(self, request: SlotRequest, job: JobState, now: float) -> None:
        """Start an attempt in its slot."""
        self.running += 1
        job.slots += 1
        request.lane.start(request, now)

    def vacate(self, slot: SlotRequest, job: JobState, failure: Failure | None, now: float) -> None:
        """Take a slot back; its lane learns from how the attempt went."""
        self.running -= 1
        job.slots -= 1
        slot.lane.end(slot, failure, now)

    def has_slot(self, returned: int = 0) -> bool:
        """Whether one more may run, where so many slots are about to be returned.

        What runs and what is not yet committed would be repeated after a crash: together at most twice the limit.
        """
        allowed = returned + self._allowed
        return (
            not self.holds.is_paused
            and self.running + self.uncommitted.unsafe
            < allowed  # an unsafe result keeps its slot until it is committed
            and self.running + self.uncommitted.total < 2 * allowed - returned
        )

    @property
    def most_running(self) -> int:
        """How many attempts may run at once, worker processes considered."""
        if self._policy.isolation is None:
            return self.limit
        return min(self.limit, self._policy.worker_limit)

    @property
    def _allowed(self) -> int:
        if self.holds.guard_reason is not None or self.holds.suspects > 0:
            return 1
        return self.most_running

    @property
    def should_commit_now(self) -> bool:
        """Whether uncommitted results hold up what comes next, or soon will."""
        allowed = self._allowed
        return (
            4 * self.uncommitted.total >= 3 * allowed
            or self.uncommitted.unsafe > 0
            or (not self.queued and self.running < allowed)
        )

    # -- rules of the run ----------------------------------------------------------------------------------------------

    @property
    def is_progressing(self) -> bool:
        """Whether jobs are started: nothing holds them back, everything is available, and nobody stopped the run."""
        if self.holds.reason is not None or self.stop_failure is not None:
            return False
        return not any(lane.health.reason for lane in self.lanes)

    def set_limit(self, concurrency: int, adaptive: bool | None) -> None:  # noqa: FBT001
        """Change the concurrency, and whether limits adapt below it. Attempts above a lower limit run to their end."""
        require_count("concurrency", concurrency)
        require_window(self._policy.window_for(concurrency), concurrency)
        self.limit, self.window = concurrency, self._policy.window_for(concurrency)
        self.lanes.set_limit(concurrency, adaptive)

    def stop(self, failure: Failure) -> list[JobState]:
        """Start nothing more; return the jobs that have not begun."""
        self.stop_failure = failure
        self.lanes.clear_steps()
        self.queued = 0
        return [job for job in self._jobs.values() if job.main is None and not job.is_finished]

    def clear_suspects(self) -> None:
        """Expect only suspects that are in the window: the source has ended."""
        self.holds.suspects = sum(job.job.past.is_suspect and not job.is_finished for job in self._jobs.values())

    def finish(self, job: JobState, end: JobEnd, now: float) -> Result:
        """End a job that holds no slot."""
        output, failure = end.output, end.failure
        metadata: Mapping[str, Any] = {}
        usage, past_s = job.job.past.usage, 0.0
        if (record := job.existing_record) is not None:
            usage, past_s = record.usage, record.past_s
        if record is not None or job.job.sample or end.metadata:
            metadata = _metadata(record, job.job.sample, end)
        counts = cost_nano = None
        if usage is not None:
            counts, cost_nano = usage.counts, usage.cost_nano
        status = SUCCEEDED
        if failure is not None:
            status = _STATUS.get(failure.kind, FAILED)
        if status is PENDING and "questions" in end.metadata:
            status = WAITING
        job.status = status
        job.is_finished = True
        job.main = None
        self.active -= 1
        self.lanes.leave(job.lane)
        self.holds.suspects -= job.job.past.is_suspect
        self.failures.add(succeeded=status is SUCCEEDED, failed=status is FAILED or status is TIMED_OUT)
        started_at = job.began_at(now)
        return Result(
            job_id=job.job.id,
            position=job.source_position,
            status=status,
            input=job.job.input,
            output=output,
            error=failure,
            attempts=job.attempts,
            queued_s=started_at - job.admitted_at,
            duration_s=past_s + now - started_at,
            usage=counts,
            cost_nano=cost_nano,
            metadata=metadata,
        )


class Holds:
    """What holds the run back: a pause stops all starts; a full machine or a suspect lets one attempt run at a time."""

    __slots__ = ("guard_reason", "is_paused", "suspects")

    def __init__(self) -> None:
        self.is_paused = False  # by a user
        self.guard_reason: str | None = None  # why the machine is too full
        self.suspects = 0  # unfinished jobs during which earlier processes died

    @property
    def reason(self) -> str | None:
        """Why nothing new is started, if so."""
        return "paused" if self.is_paused else self.guard_reason


class UncommittedWrites:
    """How many writes are on their way to the journal, and how many of them concern unsafe attempts."""

    __slots__ = ("total", "unsafe")

    def __init__(self) -> None:
        self.total = 0
        self.unsafe = 0

    def add(self, effect: Effect) -> None:
        """Count a write."""
        self.total += 1
        self.unsafe += effect == "unsafe"

    def remove(self, effects: Sequence[Effect]) -> None:
        """Subtract committed writes."""
        self.total -= len(effects)
        self.unsafe -= effects.count("unsafe")


class FailureCount:
    """How many jobs succeeded and failed, and whether that ends the run."""

    __slots__ = ("_failed", "_policy", "_succeeded")

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._succeeded = 0
        self._failed = 0

    def add(self, *, succeeded: bool, failed: bool) -> None:
        """Count a result."""
        self._succeeded += succeeded
        self._failed += failed

    def reason_to_stop(self) -> StopReason | None:
        """Return why the run must stop, if so."""
        policy, judged = self._policy, self._succeeded + self._failed
        if self._failed and policy.on_failure == "fail_fast":
            return StopReason.FAIL_FAST
        if policy.max_failures is None or (type(policy.max_failures) is float and judged < SHARE_COUNTS_FROM):
            return None
        if policy.tolerates(self._failed, judged):
            return None
        return StopReason.MAX_FAILURES

    @property
    def allowed(self) -> str:
        """How many failures do not end the run: a number, or a share of all."""
        if isinstance(self._policy.max_failures, float):
            return f"{self._policy.max_failures * 100:g}%"
        return f"{self._policy.max_failures or 0:,}"

    def __str__(self) -> str:
        return f"{self._failed:,} of {self._succeeded + self._failed:,} items failed"


def _metadata(record: JobRecord | None, sample: int, end: JobEnd) -> dict[str, Any]:
    """Return which sample a job is, which model answered it (or, of several, all), and what the job itself adds."""
    metadata: dict[str, Any] = {}
    if sample:
        metadata["sample"] = sample
    if record is not None and record.models:
        [model, *others] = sorted(record.models)
        metadata["model"] = [model, *others] if others else model
    metadata.update(end.metadata)
    return metadata
