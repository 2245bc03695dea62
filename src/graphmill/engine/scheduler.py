"""What starts next, what follows an attempt, when the batch stops: decided here, purely; the conductor acts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, get_args

from graphmill.core.errors import DuplicateIdError, UsageError
from graphmill.core.job import Effect, Job
from graphmill.core.result import (
    CANCELLED,
    FAILED,
    PAUSED,
    PENDING,
    RETRYING,
    RUNNING,
    SUCCEEDED,
    TIMED_OUT,
    Failure,
    Kind,
    Result,
    Status,
    StopReason,
)
from graphmill.engine.lane import Lane
from graphmill.engine.lanes import Lanes
from graphmill.engine.policy import Policy, require_count, require_window
from graphmill.engine.program import Programmed, StepRules
from graphmill.engine.queue import rank
from graphmill.engine.retry import next_wait_s
from graphmill.engine.strand import Strand
from graphmill.engine.ticket import Ticket

SHARE_COUNTS_FROM = 20


class Scheduler:
    """The state of a batch and the rules over it. It holds no clock and no loop: every event brings its time."""

    def __init__(self, policy: Policy, random: Random) -> None:
        self._policy = policy
        self._random = random
        self._rules = {
            effect: StepRules(retry=policy.retry, timeout_s=policy.timeout_s, effect=effect)
            for effect in get_args(Effect)
        }
        self._tickets: dict[str, Ticket] = {}
        self._suspects = 0
        self._uncommitted = 0
        self._uncommitted_unsafe = 0
        self.leaving: Failure | None = None  # how what has not ended is to end, once the run is left
        self.limit = policy.slots
        self.lanes = Lanes(policy, self.limit)  # each with the jobs of one key
        self.window = policy.window_for(self.limit)  # how many jobs may be unfinished at once
        self.is_paused = False  # by a person: nothing starts
        self.full: str | None = None  # why, if the machine is full: one attempt at a time
        self.queued = 0
        self.running = 0
        self.retrying = 0
        self.active = 0  # jobs that have no result yet
        self._succeeded = 0
        self._failed = 0

    @property
    def unfinished(self) -> int:
        """Jobs in the window: those that have no result yet, and those whose result has not been taken."""
        return len(self._tickets)

    @property
    def held(self) -> str | None:
        """Why nothing new is started, if so."""
        return "paused" if self.is_paused else self.full

    @property
    def is_going_on(self) -> bool:
        """Whether jobs are started as they can be: nothing holds them, everything answers, and nobody has ended the run."""
        return self.held is None and self.leaving is None and not any(lane.health.reason for lane in self.lanes)

    def set_limit(self, concurrency: int) -> None:
        """Change how many attempts may run at once; those above a lower limit run to their end. Nothing adapts from now on."""
        require_count("concurrency", concurrency)
        require_window(self._policy.window_for(concurrency), concurrency)
        self.limit, self.window = concurrency, self._policy.window_for(concurrency)
        self.lanes.fix(concurrency)

    def admit(self, job: Job, *, position: int, now: float) -> Ticket:
        """Take a job into the window."""
        if not isinstance(job, Job):
            raise UsageError(f"expected a Job, got {type(job).__name__}; for plain items use gm.batch(function, items)")
        earlier = self._tickets.get(job.id)
        if earlier is not None:
            raise DuplicateIdError(job.id, first=earlier.position, second=position)
        lane = self.lanes.of(job.key)
        rules = self._rules[job.effect]
        ticket = Ticket(job, lane, rules, position=position, rank=rank(admitted_at=now, priority=job.priority), now=now)
        self._tickets[job.id] = ticket
        self.active += 1
        self.lanes.join(lane)
        self._push(lane, ticket)
        return ticket

    def enqueue(self, strand: Strand, key: str) -> None:
        """Let a strand's step wait for a slot in the lane of this key."""
        strand.lane = self.lanes.kept_to(key, strand.rules.limits)
        self.lanes.join(strand.lane)
        self._push(strand.lane, strand)

    def take_slot(self, strand: Strand, key: str, now: float) -> bool:
        """Give the first step of a job that has just been let in its slot, if it would be the next to get it; tell whether so."""
        lane = self.lanes.kept_to(key, strand.rules.limits)
        if not self._has_slot() or not lane.lets_in(strand, now):
            return False
        strand.lane = lane
        self.lanes.join(lane)
        self._begin(strand, now)
        return True

    def carry_on(self, strand: Strand, key: str, now: float) -> bool:
        """Let a strand whose step went well keep its slot for the next one, if it would be the first to get it; tell whether so."""
        lane = strand.lane
        if lane.key != key or not lane.is_free or not self._has_slot(but=1) or self.lanes.has_before(strand):
            return False
        lane.went_well(now)
        return True

    def end_step(self, strand: Strand, failure: Failure | None, now: float) -> None:
        """End a strand's step, whatever it is doing: it has come to its outcome, or nobody wants that any more."""
        if strand.status is RUNNING:
            self._end_attempt(strand, failure, now)
        else:
            self._unqueue(strand)
        strand.has_step = False
        strand.status = SUCCEEDED if failure is None else _final(failure)
        self.lanes.quit(strand.lane)

    def find(self, job_id: str) -> Ticket | None:
        """Find an unfinished job."""
        return self._tickets.get(job_id)

    def number_of(self, job_id: str) -> int:
        """Tell which of all jobs one in the window is, from 0 on."""
        return self._tickets[job_id].position

    def under_way(self) -> list[Ticket]:
        """All jobs that have begun and are not waiting for their next attempt."""
        return [ticket for ticket in self._tickets.values() if ticket.status is RUNNING]

    def start_next(self, now: float) -> Ticket | None:
        """Give the next job a slot, if there is a job and a slot: the first in rank among the lanes that let one start.

        A call for which a slot is held already goes before them.
        """
        if (visit := self.lanes.next_guest(now)) is not None:
            return visit
        if not self.queued or not self._has_slot():
            return None
        lane = self.lanes.first_open(now)
        return None if lane is None else self._start(lane, now)

    def opens_at(self, now: float) -> float | None:
        """Tell when a lane that now lets nothing start will do so by itself; None if none will."""
        return self.lanes.opens_at(now, is_for_tickets=self.queued > 0 and self._has_slot())

    def succeed(self, ticket: Ticket, output: object, now: float) -> Result:
        """End a running job with its output."""
        self._end_attempt(ticket, None, now)
        return self._finish(ticket, SUCCEEDED, output, None, now)

    def fail(self, ticket: Ticket, failure: Failure, now: float) -> Failure | float:
        """Take a running attempt's failure: give the wait before the next one, or the failure that ends it all."""
        self._count(ticket, failure.kind, now)
        wait_s = next_wait_s(
            ticket.rules.retry,
            failure,
            tries=ticket.attempts - ticket.throttles - ticket.refusals,
            throttles=ticket.throttles,
            throttled_s=ticket.throttled_s,
            crashes=ticket.crashes,
            random=self._random,
        )
        last = (ticket.blamed or ticket.lane).succeeded_at
        if (
            wait_s is None
            and ticket.throttled_s
            and failure.kind is Kind.THROTTLED
            and last < (ticket.throttled_at + now) / 2
        ):
            ticket.lane.health.park(
                f"{failure.message} (throttled for {ticket.throttled_s:.0f} s, and of late nothing got through)"
            )
            wait_s = 0.0
        if wait_s is None:
            return failure
        if self.leaving is not None:
            return self.leaving
        if failure.kind is Kind.THROTTLED:
            ticket.throttled_s += wait_s
        elif (
            failure.kind is Kind.UNAVAILABLE
        ):  # behind the others: the next probe is another job, so that no job alone can park the run
            ticket.rank = rank(admitted_at=now, priority=ticket.job.priority)
        self._end_attempt(ticket, failure, now)
        self.retrying += 1
        ticket.status = RETRYING
        return wait_s

    def retry(self, ticket: Ticket) -> None:
        """Let a job whose wait is over queue for a slot again."""
        self.retrying -= 1
        ticket.status = PENDING
        self._push(ticket.lane, ticket)

    def end(self, ticket: Ticket, failure: Failure, now: float) -> Result:
        """End a job with this failure, whatever it is doing and whatever retries are left."""
        if ticket.strands is not None:
            pass  # its strands hold what is held
        elif ticket.status is RUNNING:
            self._end_attempt(ticket, failure, now)
        else:
            self._unqueue(ticket)
        return self._finish(ticket, _final(failure), None, failure, now)

    def complete(self, ticket: Ticket, output: object, now: float) -> Result:
        """End a job that was made of steps with its output."""
        return self._finish(ticket, SUCCEEDED, output, None, now)

    def leave(self, failure: Failure, now: float) -> list[tuple[Ticket, Result]]:
        """End every job that is not running, and from now on those whose attempt would be followed by another."""
        self.leaving = failure
        self.lanes.clear()
        self.queued = self.retrying = 0
        idle = [ticket for ticket in self._tickets.values() if ticket.status in (PENDING, RETRYING)]
        return [(ticket, self._finish(ticket, _final(failure), None, failure, now)) for ticket in idle]

    def release(self, job_id: str) -> None:
        """Forget a job whose result was taken: its place in the window is free."""
        del self._tickets[job_id]

    def reason_to_stop(self) -> StopReason | None:
        """Say why the batch must not go on, if so."""
        policy, judged = self._policy, self._succeeded + self._failed
        if self._failed and policy.on_failure == "fail_fast":
            return StopReason.FAIL_FAST
        if policy.max_failures is None or (type(policy.max_failures) is float and judged < SHARE_COUNTS_FROM):
            return None
        return None if policy.tolerates(self._failed, judged) else StopReason.MAX_FAILURES

    def suspect(self, count: int) -> None:
        """Run one job at a time until so many suspects are finished: the process has died under them."""
        self._suspects = count

    def acquit(self) -> None:
        """Wait no more for suspects that have not been admitted: there will be none."""
        self._suspects = sum(
            ticket.job.past.is_suspect and not ticket.status.is_final for ticket in self._tickets.values()
        )

    def note_written(self, effect: Effect) -> None:
        """Count an outcome that is on its way to the journal."""
        self._uncommitted += 1
        self._uncommitted_unsafe += effect == "unsafe"

    def note_committed(self, effects: Sequence[Effect]) -> None:
        """Count so many, with these effects, no more."""
        self._uncommitted -= len(effects)
        self._uncommitted_unsafe -= effects.count("unsafe")

    @property
    def is_pressed(self) -> bool:
        """Whether what is uncommitted is to be written at once: it holds up what comes next, or soon will."""
        most = self._most
        return (
            4 * self._uncommitted >= 3 * most
            or self._uncommitted_unsafe > 0
            or (not self.queued and self.running < most)
        )

    def failed_so_far(self) -> str:
        """Say how many jobs have failed."""
        return f"{self._failed:,} of {self._succeeded + self._failed:,} jobs failed"

    @property
    def has_slot(self) -> bool:
        """Whether one more may run."""
        return self._has_slot()

    def _has_slot(self, but: int = 0) -> bool:
        """Tell whether one more may run, in the place of so many: what runs and what is not yet committed repeats after a crash."""
        most = but + self._most
        return (
            not self.is_paused
            and self.running + self._uncommitted_unsafe < most  # what must not be repeated keeps its slot until then
            and self.running + self._uncommitted < 2 * most - but
        )

    @property
    def _most(self) -> int:
        return self.limit if self.full is None and self._suspects <= 0 else 1

    def _push(self, lane: Lane, ticket: Ticket) -> None:
        self.queued += 1
        self.lanes.push(lane, ticket)

    def _start(self, lane: Lane, now: float) -> Ticket:
        ticket = self.lanes.pop(lane)
        self.queued -= 1
        if ticket.started_at is None:
            ticket.started_at = now
        ticket.status = RUNNING
        if isinstance(ticket.job.graph, Programmed) and not isinstance(ticket, Strand):
            return ticket  # its steps will ask for slots
        self._begin(ticket, now)
        return ticket

    def _begin(self, ticket: Ticket, now: float) -> None:
        ticket.status = RUNNING
        ticket.attempts += 1
        self.running += 1
        if isinstance(ticket, Strand):
            ticket.root.busy += 1
        ticket.lane.start(ticket, now)

    def _unqueue(self, ticket: Ticket) -> None:
        """Take out a ticket that waits, for a slot or for its next attempt."""
        if self.leaving is not None:
            return  # all were taken out together
        if ticket.status is RETRYING:
            self.retrying -= 1
        else:
            self.queued -= 1
            self.lanes.remove(ticket)

    def _end_attempt(self, ticket: Ticket, failure: Failure | None, now: float) -> None:
        self.running -= 1
        if isinstance(ticket, Strand):
            ticket.root.busy -= 1
        blamed, ticket.blamed = ticket.blamed, None
        if blamed is not None and failure is not None and failure.kind in (Kind.THROTTLED, Kind.UNAVAILABLE):
            failure = _TAUGHT  # the lane of its call knows, and lets the next call wait
        ticket.lane.end(ticket, failure, now)

    def _count(self, ticket: Ticket, kind: Kind, now: float) -> None:
        if kind is Kind.THROTTLED:
            ticket.throttles += 1
            if ticket.throttles == 1:
                ticket.throttled_at = now
        elif kind is Kind.UNAVAILABLE or (kind is Kind.TIMEOUT and ticket.is_probe):
            ticket.refusals += 1
        elif kind is Kind.CRASH:
            ticket.crashes += 1

    def _finish(self, ticket: Ticket, status: Status, output: object, failure: Failure | None, now: float) -> Result:
        ticket.status = status
        self.active -= 1
        self.lanes.quit(ticket.lane)
        self._suspects -= ticket.job.past.is_suspect
        self._succeeded += status is SUCCEEDED
        self._failed += status is FAILED or status is TIMED_OUT
        started_at = now if ticket.started_at is None else ticket.started_at
        return Result(
            job_id=ticket.job.id,
            position=ticket.position if ticket.job.past.position is None else ticket.job.past.position,
            status=status,
            input=ticket.job.input,
            output=output,
            error=failure,
            attempts=ticket.attempts,
            queued_s=started_at - ticket.admitted_at,
            duration_s=ticket.past_s + now - started_at,
            usage=None if ticket.usage is None else ticket.usage.counts,
            cost=None if ticket.usage is None else ticket.usage.cost_usd,
            metadata=_metadata(ticket.models, ticket.job.sample) if ticket.models or ticket.job.sample else {},
        )


def _metadata(models: list[str], sample: int) -> dict[str, Any]:
    """Give which sample a job is, and which model has answered it, or, of several, all."""
    if not models:
        return {"sample": sample}
    answered = models[0] if len(models) == 1 else sorted(models)
    return {"sample": sample, "model": answered} if sample else {"model": answered}


_TAUGHT = Failure(kind=Kind.CANCELLED, type="", message="")


def _final(failure: Failure) -> Status:
    return _STATUS.get(failure.kind, FAILED)


_STATUS = {Kind.TIMEOUT: TIMED_OUT, Kind.CANCELLED: CANCELLED, Kind.PAUSED: PAUSED}
