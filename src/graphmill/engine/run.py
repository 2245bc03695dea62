"""A live run: the thin loop that acts on what the scheduler decides, and the handle a person holds."""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from random import Random
from typing import Any, Concatenate, ParamSpec, Self

from graphmill.core.errors import GraphmillError, InternalError, SourceError, UsageError
from graphmill.core.job import Job
from graphmill.core.result import Failure, Kind, Result, Status
from graphmill.engine import events
from graphmill.engine.deadlines import Deadlines
from graphmill.engine.failures import failure_of, kind_of
from graphmill.engine.feed import ContainerFeed, Feed, by_priority, known_length, open_feed
from graphmill.engine.observers import Subscriber, log
from graphmill.engine.outbox import Outbox
from graphmill.engine.policy import Policy
from graphmill.engine.progress import Progress, RateMeter
from graphmill.engine.scheduler import Scheduler
from graphmill.engine.statistics import Statistics, Tally
from graphmill.engine.ticket import Ticket, Verdict
from graphmill.engine.workers import Workers

PROGRESS_EVERY_S = 0.5
DRAIN_S = 5.0
MOST_STUCK = 100
_MOST_ADMITTED_AT_ONCE = 1000

P = ParamSpec("P")
Bind = Callable[[int, Any], Job]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Who is told of what happens: each may be a plain or an async function."""

    on_result: Callable[[Job, Result], Any] | None = None
    on_progress: Callable[[Progress], Any] | None = None
    observers: Sequence[Callable[[events.Event], Any]] = ()


def _acting(method: Callable[Concatenate[Run, P], None]) -> Callable[Concatenate[Run, P], None]:
    """Let a fault of ours, in a callback that nobody awaits, end the run with an error instead of hanging it."""

    @wraps(method)
    def act(self: Run, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001
            self._crash(error)

    return act


class Run:
    """A batch under way. Enter it with ``async with``; leaving it early cancels what is left.

    Progress needs a reader: results that nobody takes fill the window and hold the source back.
    """

    def __init__(self, jobs: Any, policy: Policy, hooks: Hooks, *, bind: Bind | None, total: int | None, random: Random) -> None:
        self._jobs = jobs
        self._policy = policy
        self._hooks = hooks
        self._bind = bind
        self._expected = known_length(jobs) if total is None else total
        self._scheduler = Scheduler(policy, random)
        self._outbox = Outbox()
        self._tally = Tally()
        self._arrived = asyncio.Event()
        self._is_quiet = asyncio.Event()
        self._observers: list[Subscriber] = []
        self._on_result: Subscriber | None = None
        self._on_progress: Subscriber | None = None
        self._timers: dict[str, TimerHandle] = {}
        self._asked = 0
        self._feed: Feed | None = None
        self._is_source_done = False
        self._is_starting = False
        self._is_read = False
        self._is_reordered = False
        self._ended_at: float | None = None
        self._error: GraphmillError | None = None
        self._classify_failed = False
        self.stopped: str | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._started_at = self._loop.time()
        self._meter = RateMeter(self._started_at)
        self._workers = Workers(self._attempt_ended, grace_s=self._policy.grace_s)
        self._attempt_deadlines = self._deadlines(self._policy.timeout_s, self._attempt_expired)
        self._job_deadlines = self._deadlines(self._policy.job_timeout_s, self._job_expired)
        self._subscribe()
        self._emit(partial(events.RunStarted, concurrency=self._scheduler.limit, total=self._expected))
        if self._policy.batch_timeout_s is not None:
            self._timers["batch"] = self._loop.call_later(self._policy.batch_timeout_s, self._batch_expired)
        self._tick()
        self._loop.call_soon(self._open)  # not at once, so that ordered results can be asked for first
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._is_over():
            self._stop("cancelled", "the run was left before its end")
        try:
            while self._scheduler.running:
                self._is_quiet.clear()
                await self._is_quiet.wait()
            self._ended_at = self._ended_at or self._loop.time()
            self._tell_progress()
            self._emit(partial(events.RunFinished, statistics=self.statistics()))
            for subscriber in (self._on_result, self._on_progress, *self._observers):
                if subscriber is not None:
                    await subscriber.drain(DRAIN_S)
        finally:
            await self._close()

    def results(self, *, ordered: bool = False) -> AsyncIterator[Result]:
        """Read the results, each once: as completed, or in input order.

        In input order a slow first item holds back all results after it, and, once the window is full, the source.
        A source that failed raises SourceError here, after every result of what came before.
        """
        if self._is_read:
            raise UsageError("the results of this run are already being read; read them in one place")
        self._is_read = True
        if ordered:
            if self._is_reordered:
                raise UsageError("ask for ordered results before the run has started: its list was already ordered by priority")
            self._outbox.order()
        return self._read()

    async def wait(self) -> Statistics:
        """Read and forget all results; for a run whose results go elsewhere."""
        async for _ in self.results():
            pass
        return self.statistics()

    async def take(self) -> list[Result]:
        """Take all results that are there, at least one, or none at the run's end. Give them back to ``release``."""
        while True:
            if taken := self._outbox.take():
                return taken
            if self._is_over():
                self._ended_at = self._ended_at or self._loop.time()
                if self._error is not None:
                    raise self._error
                return []
            self._arrived.clear()
            await self._arrived.wait()

    def release(self, result: Result) -> None:
        """Free a taken result's place in the window."""
        self._scheduler.release(result.job_id)
        self._refill()

    def call_in_thread(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call a plain function, such as a sink's write, in a thread of the run."""
        return self._workers.submit(function)

    def progress(self) -> Progress:
        """Read how far the run is."""
        now, done, scheduler = self._now(), self._tally.total, self._scheduler
        rate = self._meter.rate(now, done)
        left = None if self._expected is None else max(0, self._expected - done)
        by_status = self._tally.by_status
        return Progress(
            total=self._expected,
            done=done,
            succeeded=by_status[Status.SUCCEEDED],
            failed=scheduler.failed,
            cancelled=by_status[Status.CANCELLED],
            running=scheduler.running,
            queued=scheduler.queued,
            retrying=scheduler.retrying,
            concurrency=scheduler.limit,
            rate=rate,
            eta_s=None if left is None or not rate else left / rate,
            elapsed_s=now - self._started_at,
        )

    def statistics(self) -> Statistics:
        """Read the figures so far."""
        return self._tally.statistics(expected=self._expected, elapsed_s=self._now() - self._started_at, stuck=self._workers.stuck)

    def status(self, job_id: str) -> Status | None:
        """Tell where one job of the window stands; None for one not yet admitted, or whose result was taken."""
        ticket = self._scheduler.find(job_id)
        return None if ticket is None else ticket.status

    def set_concurrency(self, concurrency: int) -> None:
        """Change how many attempts may run at once, from now on."""
        before = self._scheduler.limit
        self._scheduler.set_limit(concurrency)
        self._emit(partial(events.ConcurrencyChanged, before=before, after=concurrency))
        self._refill()
        self._start_soon()

    def cancel(self, job_id: str | None = None) -> bool:
        """Cancel one job, or the whole run; tell whether there was something to cancel."""
        if job_id is None:
            return self._stop("cancelled", "the run was cancelled")
        ticket = self._scheduler.find(job_id)
        if ticket is None or ticket.status not in (Status.PENDING, Status.RUNNING, Status.RETRYING):
            return False
        self._end(ticket, _cancelled("the job was cancelled"))
        return True

    async def _read(self) -> AsyncIterator[Result]:
        while taken := await self.take():
            for result in taken:
                yield result
                self.release(result)

    # --- admission ---

    @_acting
    def _open(self) -> None:
        if self._is_source_done:
            return
        jobs = self._jobs
        if self._bind is None and isinstance(jobs, list | tuple) and not self._outbox.is_ordered and _has_priorities(jobs):
            self._is_reordered = True
            self._feed = ContainerFeed(by_priority(jobs), self._on_item, self._on_source_end)
        else:
            self._feed = open_feed(jobs, workers=self._workers, on_item=self._on_item, on_end=self._on_source_end)
        self._refill()

    @_acting
    def _refill(self) -> None:
        if self._is_source_done or self._feed is None:
            return
        window = self._scheduler.window
        room = min(window - self._scheduler.unfinished - self._asked, _MOST_ADMITTED_AT_ONCE)
        if room < max(1, min(_MOST_ADMITTED_AT_ONCE, (window - self._scheduler.limit) // 4)):
            return
        self._asked += room
        self._feed.request(room)
        if room == _MOST_ADMITTED_AT_ONCE:
            self._loop.call_soon(self._refill)

    @_acting
    def _on_item(self, position: int, item: Any) -> None:
        self._asked -= 1
        if self._is_source_done:
            return
        try:
            job = item if self._bind is None else self._bind(position, item)
            self._scheduler.admit(job, position=position, now=self._loop.time())
        except Exception as error:  # noqa: BLE001  whatever a source yields or a binder raises is the source's failure
            self._on_source_end(position, error)
        else:
            self._start_soon()

    @_acting
    def _on_source_end(self, count: int, error: BaseException | None) -> None:
        self._end_source()
        if error is None:
            self._expected = count
        else:
            self._error = _source_error(count, error)
        message = None if self._error is None else str(self._error)
        self._emit(partial(events.SourceEnded, count=count, error=message))
        self._arrived.set()

    def _end_source(self) -> None:
        self._is_source_done = True
        if self._feed is not None:
            self._feed.close()

    # --- attempts ---

    def _start_soon(self) -> None:
        """Start what is ready once the present burst of items is in, so that the first of them is the right one."""
        if not self._is_starting:
            self._is_starting = True
            self._loop.call_soon(self._start_ready)

    @_acting
    def _start_ready(self) -> None:
        self._is_starting = False
        now = self._loop.time()
        while (ticket := self._scheduler.start_next(now)) is not None:
            if self._attempt_deadlines is not None:
                self._attempt_deadlines.set(ticket, now)
            if self._job_deadlines is not None and ticket.attempts == 1:
                self._job_deadlines.set(ticket, now)
            if self._observers:
                self._emit(partial(events.AttemptStarted, job_id=ticket.job.id, attempt=ticket.attempts))
            self._workers.begin(ticket)

    @_acting
    def _attempt_ended(self, ticket: Ticket, value: Any, error: BaseException | None) -> None:
        now = self._loop.time()
        if self._attempt_deadlines is not None:
            self._attempt_deadlines.clear(ticket)
        verdict, ticket.verdict, ticket.attempt = ticket.verdict, None, None
        outcome: Result | float
        if verdict is None and error is None:
            outcome = self._scheduler.succeed(ticket, value, now)
        elif verdict is not None and verdict.is_final:
            outcome = self._scheduler.end(ticket, verdict.failure, now)
        else:
            failure = verdict.failure if verdict is not None else self._failure(error)
            outcome = self._scheduler.fail(ticket, failure, now)
            if not isinstance(outcome, Result):
                self._wait(ticket, failure, outcome)
        if isinstance(outcome, Result):
            self._finished(ticket, outcome)
        self._start_ready()
        if not self._scheduler.running:
            self._is_quiet.set()

    def _wait(self, ticket: Ticket, failure: Failure, wait_s: float) -> None:
        ticket.timer = self._loop.call_later(wait_s, self._retry_due, ticket)
        self._emit(partial(events.RetryScheduled, job_id=ticket.job.id, attempt=ticket.attempts, failure=failure, wait_s=wait_s))

    @_acting
    def _retry_due(self, ticket: Ticket) -> None:
        ticket.timer = None
        self._scheduler.retry(ticket)
        self._start_ready()

    def _failure(self, error: BaseException | None) -> Failure:
        assert error is not None  # noqa: S101  an attempt without a verdict ends with a value or an error
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

    # --- ends ---

    def _finished(self, ticket: Ticket, result: Result) -> None:
        if ticket.timer is not None:
            ticket.timer.cancel()
            ticket.timer = None
        if self._job_deadlines is not None:
            self._job_deadlines.clear(ticket)
        self._tally.add(result)
        if self._observers:
            self._emit(partial(events.JobFinished, result=result))
        if self._on_result is None:
            self._deliver((ticket.job, result))
        else:
            self._on_result.offer(ticket.job, result)
        if reason := self._scheduler.reason_to_stop():
            self._stop(reason, f"{reason}: job {result.job_id!r:.80} failed")

    def _deliver(self, letter: tuple[Any, ...]) -> None:
        if self._outbox.put(letter[1]):
            self._arrived.set()

    def _end(self, ticket: Ticket, failure: Failure) -> None:
        """End a job from outside; a running one ends when its attempt does, or is abandoned."""
        if ticket.status is Status.RUNNING:
            self._condemn(ticket, Verdict(failure, is_final=True))
        else:
            self._finished(ticket, self._scheduler.end(ticket, failure, self._loop.time()))

    def _condemn(self, ticket: Ticket, verdict: Verdict) -> None:
        ticket.verdict = verdict
        if ticket.attempt is not None:
            self._workers.interrupt(ticket.attempt)

    def _stop(self, reason: str, message: str, *, running: Failure | None = None) -> bool:
        """Admit no more, end everything; tell whether this was the first call to do so."""
        if self.stopped is not None or self._is_over():
            return False
        self.stopped = reason
        self._end_source()
        self._emit(partial(events.RunStopped, reason=reason))
        for ticket, result in self._scheduler.end_idle(_cancelled(message), self._loop.time()):
            self._finished(ticket, result)
        for ticket in self._scheduler.under_way():
            self._condemn(ticket, Verdict(running or _cancelled(message), is_final=True))
        self._arrived.set()
        return True

    @_acting
    def _attempt_expired(self, ticket: Ticket) -> None:
        self._condemn(ticket, Verdict(_timeout(f"no answer within {self._policy.timeout_s:g} s"), is_final=False))
        if self._workers.stuck > MOST_STUCK:
            log.error("%d timed-out functions still run; the run stops before it is buried under them", self._workers.stuck)
            self._stop("stuck", "too many timed-out functions still run")

    @_acting
    def _job_expired(self, ticket: Ticket) -> None:
        self._end(ticket, _timeout(f"not finished within the job's {self._policy.job_timeout_s:g} s"))

    @_acting
    def _batch_expired(self) -> None:
        message = f"the batch's {self._policy.batch_timeout_s:g} s are over"
        self._stop("deadline", message, running=_timeout(message))

    def _crash(self, error: Exception) -> None:
        if not isinstance(self._error, InternalError):
            self._error = InternalError(f"{type(error).__name__}: {error}")
            self._error.__cause__ = error
        self._arrived.set()
        self._is_quiet.set()

    def _is_over(self) -> bool:
        return isinstance(self._error, InternalError) or (self._is_source_done and not self._scheduler.unfinished)

    # --- telling ---

    def _subscribe(self) -> None:
        hooks, workers = self._hooks, self._workers
        if hooks.on_result is not None:
            self._on_result = Subscriber("on_result", hooks.on_result, workers, capacity=None, is_kept=True, after=self._deliver)
        if hooks.on_progress is not None:
            self._on_progress = Subscriber("on_progress", hooks.on_progress, workers, capacity=1)
        self._observers = [Subscriber(f"observer {observer!r:.80}", observer, workers) for observer in hooks.observers]

    def _emit(self, make: Callable[..., events.Event]) -> None:
        if self._observers:
            event = make(at_s=self._loop.time() - self._started_at)
            for observer in self._observers:
                observer.offer(event)

    @_acting
    def _tick(self) -> None:
        self._meter.read(self._loop.time(), self._tally.total)
        self._tell_progress()
        self._timers["tick"] = self._loop.call_later(PROGRESS_EVERY_S, self._tick)

    def _tell_progress(self) -> None:
        if self._on_progress is not None:
            self._on_progress.offer(self.progress())

    def _now(self) -> float:
        return self._loop.time() if self._ended_at is None else self._ended_at

    def _deadlines(self, delay_s: float | None, expire: Callable[[Ticket], None]) -> Deadlines[Ticket] | None:
        return None if delay_s is None else Deadlines(self._loop, delay_s, expire)

    async def _close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for deadlines in (self._attempt_deadlines, self._job_deadlines):
            if deadlines is not None:
                deadlines.close()
        self._end_source()
        if self._feed is not None:
            await self._feed.wait_closed(self._policy.grace_s)
        await self._workers.close()


def _has_priorities(jobs: Sequence[Any]) -> bool:
    return any(isinstance(job, Job) and job.priority for job in jobs) and all(isinstance(job, Job) for job in jobs)


def _cancelled(message: str) -> Failure:
    return Failure(kind=Kind.CANCELLED, message=message, type="Cancelled")


def _timeout(message: str) -> Failure:
    return Failure(kind=Kind.TIMEOUT, message=message, type="TimeoutError")


def _source_error(position: int, error: BaseException) -> GraphmillError:
    if isinstance(error, SourceError):
        return error
    found = SourceError(f"the source failed after {position:,} items: {type(error).__name__}: {error}", position=position)
    found.__cause__ = error
    return found
