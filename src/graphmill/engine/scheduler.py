"""What starts next, what follows an attempt, when the batch stops: decided here, purely; the conductor acts."""

from __future__ import annotations

from random import Random

from graphmill.core.errors import DuplicateIdError, UsageError
from graphmill.core.job import Job
from graphmill.core.result import Failure, Kind, Result, Status, StopReason
from graphmill.engine.policy import Policy, require_count, require_window
from graphmill.engine.queue import ReadyQueue, rank
from graphmill.engine.retry import next_wait_s
from graphmill.engine.ticket import Ticket

SHARE_COUNTS_FROM = 20


class Scheduler:
    """The state of a batch and the rules over it. It holds no clock and no loop: every event brings its time."""

    def __init__(self, policy: Policy, random: Random) -> None:
        self._policy = policy
        self._random = random
        self._queue = ReadyQueue()
        self._tickets: dict[str, Ticket] = {}
        self.limit = policy.concurrency
        self.running = 0
        self.retrying = 0
        self._succeeded = 0
        self._failed = 0

    @property
    def queued(self) -> int:
        """Jobs that wait for a slot, retries whose wait is over included."""
        return len(self._queue)

    @property
    def active(self) -> int:
        """Jobs that have no result yet."""
        return len(self._queue) + self.running + self.retrying

    @property
    def unfinished(self) -> int:
        """Jobs in the window: those that have no result yet, and those whose result has not been taken."""
        return len(self._tickets)

    @property
    def window(self) -> int:
        """How many jobs may be unfinished at once."""
        return self._policy.window_for(self.limit)

    def set_limit(self, concurrency: int) -> None:
        """Change how many attempts may run at once; those above a lower limit run to their end."""
        require_count("concurrency", concurrency)
        require_window(self._policy.window_for(concurrency), concurrency)
        self.limit = concurrency

    def admit(self, job: Job, *, position: int, now: float) -> Ticket:
        """Take a job into the window."""
        if not isinstance(job, Job):
            raise UsageError(f"expected a Job, got {type(job).__name__}; for plain items use gm.batch(function, items)")
        earlier = self._tickets.get(job.id)
        if earlier is not None:
            raise DuplicateIdError(job.id, first=earlier.position, second=position)
        ticket = Ticket(job, position=position, rank=rank(admitted_at=now, priority=job.priority), now=now)
        self._tickets[job.id] = ticket
        self._queue.push(ticket)
        return ticket

    def find(self, job_id: str) -> Ticket | None:
        """Find an unfinished job."""
        return self._tickets.get(job_id)

    def under_way(self) -> list[Ticket]:
        """All jobs that hold a slot."""
        return [ticket for ticket in self._tickets.values() if ticket.status is Status.RUNNING]

    def start_next(self, now: float) -> Ticket | None:
        """Give the next job a slot, if there is a job and a slot."""
        if not self._queue or not self._has_slot():
            return None
        ticket = self._queue.pop()
        if ticket.started_at is None:
            ticket.started_at = now
        ticket.status = Status.RUNNING
        ticket.attempts += 1
        self.running += 1
        return ticket

    def succeed(self, ticket: Ticket, output: object, now: float) -> Result:
        """End a running job with its output."""
        self.running -= 1
        return self._finish(ticket, Status.SUCCEEDED, output, None, now)

    def fail(self, ticket: Ticket, failure: Failure, now: float) -> Result | float:
        """End a running attempt with its failure: the job's result, or the wait before its next attempt."""
        throttles = ticket.throttles + (failure.kind is Kind.THROTTLED)
        wait_s = next_wait_s(
            self._policy.retry,
            failure,
            tries=ticket.attempts - throttles,
            throttles=throttles,
            throttled_s=ticket.throttled_s,
            random=self._random,
        )
        if wait_s is None:
            return self.end(ticket, failure, now)
        if failure.kind is Kind.THROTTLED:
            ticket.throttles = throttles
            ticket.throttled_s += wait_s
        self.running -= 1
        self.retrying += 1
        ticket.status = Status.RETRYING
        return wait_s

    def retry(self, ticket: Ticket) -> None:
        """Let a job whose wait is over queue for a slot again."""
        self.retrying -= 1
        ticket.status = Status.PENDING
        self._queue.push(ticket)

    def end(self, ticket: Ticket, failure: Failure, now: float) -> Result:
        """End a job with this failure, whatever it is doing and whatever retries are left."""
        if ticket.status is Status.RUNNING:
            self.running -= 1
        elif ticket.status is Status.RETRYING:
            self.retrying -= 1
        else:
            self._queue.remove(ticket)
        return self._finish(ticket, _final(failure), None, failure, now)

    def end_idle(self, failure: Failure, now: float) -> list[tuple[Ticket, Result]]:
        """End every job that is not running: those that wait for a slot and those that wait for a retry."""
        self._queue.clear()
        self.retrying = 0
        idle = [ticket for ticket in self._tickets.values() if ticket.status in (Status.PENDING, Status.RETRYING)]
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

    def _has_slot(self) -> bool:
        return self.running < self.limit

    def _finish(self, ticket: Ticket, status: Status, output: object, failure: Failure | None, now: float) -> Result:
        ticket.status = status
        self._succeeded += status is Status.SUCCEEDED
        self._failed += status is Status.FAILED or status is Status.TIMED_OUT
        started_at = now if ticket.started_at is None else ticket.started_at
        return Result(
            job_id=ticket.job.id,
            position=ticket.position,
            status=status,
            input=ticket.job.input,
            output=output,
            error=failure,
            attempts=ticket.attempts,
            queued_s=started_at - ticket.admitted_at,
            duration_s=now - started_at,
        )


def _final(failure: Failure) -> Status:
    if failure.kind is Kind.TIMEOUT:
        return Status.TIMED_OUT
    return Status.CANCELLED if failure.kind is Kind.CANCELLED else Status.FAILED
