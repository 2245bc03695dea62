"""The conductor: the thin loop that acts on what the scheduler decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from graphmill.core.errors import GraphmillError, InternalError
from graphmill.core.result import Failure, Kind, Result, Status
from graphmill.engine import events
from graphmill.engine.admission import Admission, Bind
from graphmill.engine.audience import Audience, Hooks
from graphmill.engine.deadlines import Deadlines
from graphmill.engine.failures import failure_of, kind_of
from graphmill.engine.observers import BREATH_S, log
from graphmill.engine.outbox import Outbox
from graphmill.engine.policy import Policy
from graphmill.engine.scheduler import Scheduler
from graphmill.engine.statistics import Tally
from graphmill.engine.ticket import Ticket, Verdict
from graphmill.engine.workers import Workers

MOST_STUCK = 100
_MOST_STARTED_AT_ONCE = 100  # what one turn of the loop starts is bounded, so that no turn is long

P = ParamSpec("P")


def _acting(method: Callable[Concatenate[Conductor, P], None]) -> Callable[Concatenate[Conductor, P], None]:
    """Let a fault of ours, in a callback that nobody awaits, end the run with an error instead of hanging it."""

    @wraps(method)
    def act(self: Conductor, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001
            self._crash(error)

    return act


class Conductor:
    """Starts attempts, takes their ends, lets retries wait, ends what must end, and hands results out.

    It lives on one loop, from its making to ``close``. ``arrived`` is set when a consumer should look again.
    """

    def __init__(self, scheduler: Scheduler, policy: Policy, hooks: Hooks, *, bind: Bind | None, expected: int | None) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._scheduler = scheduler
        self._policy = policy
        self._is_starting = False
        self._is_announcing = False
        self._classify_failed = False
        self._is_quiet = asyncio.Event()
        self._attempt_deadlines = self._deadlines(policy.timeout_s, self._attempt_expired)
        self._job_deadlines = self._deadlines(policy.job_timeout_s, self._job_expired)
        self.workers = Workers(self._attempt_ended, grace_s=policy.grace_s)
        self.audience = Audience(hooks, self.workers, window=scheduler.window, deliver=self._deliver, loop=loop)
        self.admission = Admission(scheduler, bind=bind, admitted=self.start_soon, ended=self._source_ended, loop=loop)
        self.outbox = Outbox()
        self.tally = Tally()
        self.arrived = asyncio.Event()
        self.expected = expected
        self.error: GraphmillError | None = None
        self.stopped: str | None = None
        self._batch_timer = None if policy.batch_timeout_s is None else loop.call_later(policy.batch_timeout_s, self._batch_expired)

    @_acting
    def open(self, jobs: Any) -> None:
        """Begin."""
        self.admission.open(jobs, self.workers, in_order=self.outbox.is_ordered)

    def is_over(self) -> bool:
        """Tell whether nothing is left to do."""
        return self._is_crashed() or (self.admission.is_over and not self._scheduler.unfinished)

    def start_soon(self) -> None:
        """Start what is ready in the next turn of the loop: when the present burst is in, so that the first is the right one."""
        if not self._is_starting:
            self._is_starting = True
            self._loop.call_soon(self._start_ready)

    def stop(self, reason: str, message: str, *, running: Failure | None = None) -> bool:
        """Admit no more, end everything; tell whether this was the first call to do so."""
        if self.stopped is not None or self.is_over():
            return False
        self.stopped = reason
        self.admission.close()
        self.audience.tell(events.RunStopped, reason=reason)
        for ticket, result in self._scheduler.end_idle(cancelled(message), self._loop.time()):
            self._finished(ticket, result)
        for ticket in self._scheduler.under_way():
            self._condemn(ticket, Verdict(running or cancelled(message), is_final=True))
        self.arrived.set()
        return True

    def end(self, ticket: Ticket, failure: Failure) -> None:
        """End a job from outside; a running one ends when its attempt does, or is abandoned."""
        if ticket.status is Status.RUNNING:
            self._condemn(ticket, Verdict(failure, is_final=True))
        else:
            self._finished(ticket, self._scheduler.end(ticket, failure, self._loop.time()))

    async def wait_quiet(self) -> None:
        """Wait until no attempt runs; cancelled ones end, or are abandoned, within their grace."""
        while self._scheduler.running and not self._is_crashed():
            self._is_quiet.clear()
            await self._is_quiet.wait()

    async def close(self) -> None:
        """Leave nothing behind: no timer, task or thread."""
        if self._batch_timer is not None:
            self._batch_timer.cancel()
        for deadlines in (self._attempt_deadlines, self._job_deadlines):
            if deadlines is not None:
                deadlines.close()
        self.admission.close()
        for ticket in self._scheduler.under_way():  # only after a crash
            if ticket.attempt is not None:
                self.workers.interrupt(ticket.attempt)
        await self.admission.wait_closed(self._policy.grace_s)
        await self.workers.close()

    @_acting
    def _start_ready(self) -> None:
        if self.audience.needs_breath():
            self._loop.call_later(BREATH_S, self._start_ready)
            return
        self._is_starting = False
        now = self._loop.time()
        for _ in range(_MOST_STARTED_AT_ONCE):
            ticket = self._scheduler.start_next(now)
            if ticket is None:
                return
            self._start(ticket, now)
        self.start_soon()

    def _start(self, ticket: Ticket, now: float) -> None:
        if self._attempt_deadlines is not None:
            self._attempt_deadlines.set(ticket, now)
        if self._job_deadlines is not None and ticket.attempts == 1:
            self._job_deadlines.set(ticket, now)
        if self.audience.has_observers:
            self.audience.tell(events.AttemptStarted, job_id=ticket.job.id, attempt=ticket.attempts)
        self.workers.begin(ticket)

    @_acting
    def _attempt_ended(self, ticket: Ticket, value: Any, error: BaseException | None) -> None:
        now = self._loop.time()
        self.start_soon()
        if self._attempt_deadlines is not None:
            self._attempt_deadlines.clear(ticket)
        verdict, ticket.verdict, ticket.attempt = ticket.verdict, None, None
        if verdict is not None:
            self._failed(ticket, verdict.failure, now, is_final=verdict.is_final)
        elif error is not None:
            self._failed(ticket, self._failure(error), now, is_final=False)
        else:
            self._finished(ticket, self._scheduler.succeed(ticket, value, now))
        if not self._scheduler.running:
            self._is_quiet.set()

    def _failed(self, ticket: Ticket, failure: Failure, now: float, *, is_final: bool) -> None:
        outcome = self._scheduler.end(ticket, failure, now) if is_final else self._scheduler.fail(ticket, failure, now)
        if isinstance(outcome, Result):
            self._finished(ticket, outcome)
            return
        ticket.timer = self._loop.call_later(outcome, self._retry_due, ticket)
        self.audience.tell(events.RetryScheduled, job_id=ticket.job.id, attempt=ticket.attempts, failure=failure, wait_s=outcome)

    @_acting
    def _retry_due(self, ticket: Ticket) -> None:
        ticket.timer = None
        self._scheduler.retry(ticket)
        self.start_soon()

    def _finished(self, ticket: Ticket, result: Result) -> None:
        if ticket.timer is not None:
            ticket.timer.cancel()
            ticket.timer = None
        if self._job_deadlines is not None:
            self._job_deadlines.clear(ticket)
        self.tally.add(result)
        if self.audience.has_observers:
            self.audience.tell(events.JobFinished, result=result)
        self.audience.show(ticket.job, result)
        if reason := self._scheduler.reason_to_stop():
            self.stop(reason, f"{reason}: job {result.job_id!r:.80} failed")

    def _deliver(self, result: Result) -> None:
        if self.outbox.put(result) and not self._is_announcing:
            self._is_announcing = True
            self._loop.call_soon(self._announce)

    def _announce(self) -> None:
        """Wake the consumer; a turn late, so that what takes the free slots is under way before it."""
        self._is_announcing = False
        self.arrived.set()

    def _source_ended(self, count: int, error: GraphmillError | None) -> None:
        self.error = error
        if error is None:
            self.expected = count
        self.audience.tell(events.SourceEnded, count=count, error=None if error is None else str(error))
        self.arrived.set()

    def _failure(self, error: BaseException) -> Failure:
        kind = None if self._policy.classify is None else self._classified(self._policy.classify, error)
        return failure_of(error, kind or kind_of(error))

    def _classified(self, classify: Callable[[BaseException], Any], error: BaseException) -> Kind | None:
        try:
            kind = classify(error)
            return None if kind is None else Kind(kind)
        except Exception as fault:  # noqa: BLE001  a rule that fails must not fail the item
            if not self._classify_failed:
                self._classify_failed = True
                log.exception("classify failed on %s; the usual rule is used instead", type(error).__name__, exc_info=fault)
            return None

    def _condemn(self, ticket: Ticket, verdict: Verdict) -> None:
        if ticket.verdict is None or not ticket.verdict.is_final:
            ticket.verdict = verdict
        if ticket.attempt is not None:
            self.workers.interrupt(ticket.attempt)

    @_acting
    def _attempt_expired(self, ticket: Ticket) -> None:
        self._condemn(ticket, Verdict(_timeout(f"no answer within {self._policy.timeout_s:g} s"), is_final=False))
        if self.workers.stuck > MOST_STUCK:
            log.error("%d timed-out functions still run; the run stops before it is buried under them", self.workers.stuck)
            self.stop("stuck", "too many timed-out functions still run")

    @_acting
    def _job_expired(self, ticket: Ticket) -> None:
        self.end(ticket, _timeout(f"not finished within the job's {self._policy.job_timeout_s:g} s"))

    @_acting
    def _batch_expired(self) -> None:
        message = f"the batch's {self._policy.batch_timeout_s:g} s are over"
        self.stop("deadline", message, running=_timeout(message))

    def _crash(self, error: Exception) -> None:
        if not self._is_crashed():
            self.error = InternalError(f"{type(error).__name__}: {error}")
            self.error.__cause__ = error
        self.arrived.set()
        self._is_quiet.set()

    def _is_crashed(self) -> bool:
        return isinstance(self.error, InternalError)

    def _deadlines(self, delay_s: float | None, expire: Callable[[Ticket], None]) -> Deadlines[Ticket] | None:
        return None if delay_s is None else Deadlines(self._loop, delay_s, expire)


def cancelled(message: str) -> Failure:
    """Record why a job was cancelled; it is no failure, but it is told in the same form."""
    return Failure(kind=Kind.CANCELLED, message=message, type="Cancelled")


def _timeout(message: str) -> Failure:
    return Failure(kind=Kind.TIMEOUT, message=message, type="TimeoutError")
