"""The conductor: where the parts of a run come together, that act on what the scheduler decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from graphmill.core.errors import ChangedError, GraphmillError, InternalError, UsageError, described
from graphmill.core.job import Job
from graphmill.core.result import Failure, Result, StopReason
from graphmill.engine import events
from graphmill.engine.acting import acting
from graphmill.engine.admission import Admission
from graphmill.engine.alerts import Alert, AlertName
from graphmill.engine.attempts import Attempts
from graphmill.engine.audience import SETTLE_S, Audience
from graphmill.engine.delivery import Delivery
from graphmill.engine.failures import cancelled, paused, timed_out
from graphmill.engine.figures import Figures
from graphmill.engine.health import HealthState
from graphmill.engine.lane import Lane
from graphmill.engine.outbox import Outbox
from graphmill.engine.progress import Progress
from graphmill.engine.pulse import Pulse
from graphmill.engine.rate_limits import RunRateLimiters
from graphmill.engine.recorder import Recorder
from graphmill.engine.requests import obey
from graphmill.engine.scheduler import Scheduler
from graphmill.engine.spending import Spending
from graphmill.engine.starts import Starts
from graphmill.engine.statistics import Statistics
from graphmill.engine.subscriber import log
from graphmill.engine.terms import Terms
from graphmill.engine.ticket import Ticket, Verdict
from graphmill.engine.tracing import Tracing
from graphmill.engine.workers import Workers

BEAT_S = 0.5
MOST_STUCK = 100
HASTE_S = 0.5

_TOO_MUCH = {
    StopReason.FAIL_FAST: "and the first failure ends it",
    StopReason.MAX_FAILURES: "more than max_failures allows",
}

_NO_CALL: asyncio.Handle | None = None


class Conductor:
    """Puts the parts of a run together, ends what must end, and hands results out.

    It lives on one loop, from its making to ``close``.
    """

    def __init__(self, scheduler: Scheduler, terms: Terms, recorder: Recorder | None) -> None:
        policy = self._policy = terms.policy
        total = terms.total if recorder is None else recorder.total
        self._loop = asyncio.get_running_loop()
        self._scheduler = scheduler
        spending = Spending(recorder)
        self._figures = Figures(scheduler, recorder, spending, total=total, now=self._loop.time())
        self._outbox = Outbox(lambda result: scheduler.number_of(result.job_id))
        self._recorder = recorder
        self._delivery = Delivery(scheduler, recorder, show=self._show, crash=self.crash)
        accept = terms.accept if recorder is None else recorder.accept
        self._workers = Workers(policy, accept=accept, abandoned=self._abandoned)
        self._audience = Audience(terms.hooks, self._workers, window=scheduler.window, deliver=self._deliver)
        self._starts = Starts(scheduler, self._audience, self._delivery, crash=self.crash)
        self._admission = Admission(
            scheduler, self._workers, bind=terms.bind, admitted=self._starts.soon, ended=self._source_ended
        )
        self._rate_limiters = self._limit_rates()
        self._tracing = Tracing.begun(recorder)
        self._attempts = Attempts(
            scheduler,
            self._workers,
            self._delivery,
            recorder,
            terms=terms,
            audience=self._audience,
            spending=spending,
            freed=self._starts.soon,
            idle=self._starts.idle,
            finished=self._finished,
            lane_changed=self._lane_changed,
            cancel=self.cancel,
            crash=self.crash,
            tracing=self._tracing,
        )
        self._starts.open(begin=self._attempts.start, refill=self._admission.refill)
        self._batch_timer = (
            None
            if policy.batch_timeout_s is None
            else self._loop.call_later(policy.batch_timeout_s, self._batch_expired)
        )
        self._unhanging = self._draining = self._beating = _NO_CALL
        self._patience_s = SETTLE_S
        self._arrived = asyncio.Event()
        self._undone: list[Failure] = []
        self._source_error: GraphmillError | None = None
        self._fault: GraphmillError | None = None
        self.stopped: StopReason | None = None
        self.stopped_because = ""
        self._audience.tell(events.RunStarted, concurrency=scheduler.limit, total=total)
        self._pulse = Pulse(
            scheduler,
            self._figures,
            self._audience,
            terms=terms,
            changed=self._starts.soon,
            recorder=recorder,
            now=self._loop.time(),
        )
        self._beat()
        if recorder is not None:
            scheduler.suspect(recorder.suspects)
            recorder.open(committed=self._committed, broken=self._broken, asked=self._asked)
            if self._tracing is not None:
                self._tracing.note(recorder)

    def _limit_rates(self) -> RunRateLimiters:
        limiters = RunRateLimiters(self._loop.time)
        self._scheduler.lanes.pace_of = limiters.make
        return limiters

    @acting
    def open(self, jobs: Any) -> None:
        """Begin to admit jobs."""
        self._admission.open(jobs, in_order=self._outbox.is_ordered)

    def order(self) -> None:
        """Hand results out in input order from now on."""
        if self._admission.is_reordered:
            raise UsageError(
                "ask for ordered results before the run has started: its list was already ordered by priority"
            )
        self._outbox.order()

    async def take(self) -> list[Result]:
        """Take all results that are there, at least one, or none at the end; raise what ended the run, if something did."""
        while not (taken := self._outbox.take()):
            if self._fault is not None:
                raise self._fault
            if self._admission.is_over and not self._scheduler.unfinished:
                self._figures.end(self._loop.time())
                if self._source_error is not None:
                    raise self._source_error
                break
            self._arrived.clear()
            await self._arrived.wait()
        return taken

    def release(self, result: Result) -> None:
        """Free a taken result's place in the window."""
        self._scheduler.release(result.job_id)
        self._admission.refill()

    def call_in_thread(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call a plain function in a thread of the run."""
        return self._workers.submit(function)

    def progress(self) -> Progress:
        """Read how far the run is."""
        return self._figures.progress(self._loop.time())

    def statistics(self) -> Statistics:
        """Read the figures so far."""
        return self._figures.statistics(self._loop.time(), stuck=self._workers.stuck, hook_errors=self._audience.errors)

    @property
    def run_id(self) -> str | None:
        """Under which id the run is recorded; None if it is not."""
        return None if self._recorder is None else self._recorder.run_id

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to admit, to start or to end."""
        return self._admission.is_over and not self._scheduler.active

    def set_limit(self, concurrency: int) -> bool:
        """Change how many attempts may run at once; tell whether the run was not over."""
        before = self._scheduler.limit
        self._scheduler.set_limit(concurrency)
        if self.is_over:
            return False
        if self._recorder is not None:
            self._recorder.note(limit=concurrency)
        self._audience.tell(events.ConcurrencyChanged, before=before, after=concurrency, key=None, reason="as set")
        self._starts.soon()
        return True

    def pause(self) -> bool:
        """Start nothing new; what runs goes on. Tell whether it was not so before."""
        if self._scheduler.is_paused or self.stopped is not None or self.is_over:
            return False
        self._hold(is_paused=True)
        return True

    def unpause(self) -> bool:
        """Start jobs again; tell whether the run was paused."""
        if not self._scheduler.is_paused:
            return False
        self._hold(is_paused=False)
        self._starts.soon()
        return True

    def _hold(self, *, is_paused: bool) -> None:
        self._scheduler.is_paused = is_paused
        self._figures.note_hold(self._loop.time())
        self._audience.tell_held(self._scheduler.held)
        if self._recorder is not None and self.stopped is None:
            self._recorder.note(state="held" if is_paused else "running")

    def drain(self, reason: StopReason, message: str, *, within_s: float) -> bool:
        """Stop, but let what runs end by itself for so long; asked again, for so long from now. For no time at all means in haste."""
        if not within_s:
            self._patience_s = HASTE_S
            self._workers.hasten(HASTE_S)
        troubles = [] if reason is StopReason.PARKED else self._scheduler.lanes.troubles(self._loop.time())
        return self.stop(reason, paused("; ".join([message, *troubles])), within_s=within_s)

    def stop(
        self, reason: StopReason, failure: Failure, *, running: Failure | None = None, within_s: float = 0.0
    ) -> bool:
        """Admit no more and end everything: what runs when it is told to, or by itself before; tell whether there was something to end."""
        if self.is_over:
            return False
        self._undone += [failure, running or failure]
        if self.stopped is None:
            self.stopped, self.stopped_because = reason, failure.message
            self._admission.close()
            self._audience.tell(events.RunStopped, reason=reason, message=failure.message)
            self._attempts.leave(failure)
            self._unhang_results()
            self._arrived.set()
        elif self._draining is None:
            return False
        self._end_running(running or failure, within_s)
        if within_s:
            self._pulse.drain(self._loop.time())
        return True

    def cancel(self) -> bool:
        """Cancel the whole run; tell whether there was something to cancel."""
        return self.stop(StopReason.CANCELLED, cancelled("the run was cancelled"))

    def cancel_job(self, job_id: str) -> bool:
        """Cancel one job; tell whether it was unfinished."""
        ticket = self._scheduler.find(job_id)
        if ticket is None or ticket.status.is_final:
            return False
        self._attempts.end(ticket, cancelled("the job was cancelled"))
        return True

    async def close(self) -> None:
        """See the run out: wait for the last attempts, tell the last news, leave no timer, task or thread behind."""
        try:
            try:
                await self._wait_quiet()
            except asyncio.CancelledError:  # once, it does not cut short what functions do to end in order
                await self._wait_quiet()
                raise
            self._delivery.flush()
            await self._delivery.wait_committed()
            self._delivery.show_durable()
            self._figures.end(self._loop.time())
            self._audience.tell_progress(self.progress)
            self._audience.tell(events.RunFinished, statistics=self.statistics())
            await self._audience.settle(self._patience_s)
        finally:
            try:
                await self._clean_up()
            finally:
                if self._tracing is not None:
                    self._tracing.close(self.stopped, self._fault or self._source_error)
                await self._close_recorder()

    async def _close_recorder(self) -> None:
        if self._recorder is None:
            return
        fault = self._fault
        error = self._source_error or fault
        try:
            await self._recorder.close(
                stopped=self.stopped,
                because=self.stopped_because if error is None else str(error),
                is_refused=isinstance(error, ChangedError),
                is_read=self._admission.is_at_end,
                elapsed_s=self._figures.elapsed_s(self._loop.time()),
            )
        except GraphmillError:
            if fault is None:  # else it was told already
                raise

    async def _wait_quiet(self) -> None:
        """Wait until no attempt runs; when a run ends, each ends, or is abandoned, within its grace."""
        while self._scheduler.running and self._fault is None:
            self._starts.is_quiet.clear()
            await self._starts.is_quiet.wait()

    async def _clean_up(self) -> None:
        self._starts.close()
        for timer in (self._batch_timer, self._beating, self._unhanging, self._draining):
            if timer is not None:
                timer.cancel()
        self._delivery.close()
        self._admission.close()
        self._attempts.close()
        try:
            await self._admission.wait_closed(self._workers.grace_s)
        finally:
            self._rate_limiters.close()
            await self._workers.close()

    @acting
    def _beat(self) -> None:
        self._pulse.beat(self._loop.time())
        self._beating = self._loop.call_later(BEAT_S, self._beat)

    def _lane_changed(self, lane: Lane, limit: int, state: HealthState) -> None:
        if lane.limit != limit:
            self._audience.tell(
                events.ConcurrencyChanged, before=limit, after=lane.limit, key=lane.key, reason=lane.reason
            )
        if lane.health.state is not state:
            self._health_changed(lane, state)

    def _health_changed(self, lane: Lane, before: HealthState) -> None:
        health = lane.health
        self._audience.tell(events.HealthChanged, key=lane.key, state=health.state, reason=health.reason)
        if health.state is HealthState.CLOSED:
            log.info("%savailable again", f"{lane.key}: " if lane.key else "")
        elif before is HealthState.CLOSED or health.state is HealthState.PARKED:
            word: AlertName = "parked" if health.state is HealthState.PARKED else "unavailable"
            self._audience.alert(Alert(name=word, message=f"{word}: {lane.trouble}"))
        if health.state is HealthState.PARKED and self.stopped is None:
            self.drain(StopReason.PARKED, lane.trouble, within_s=self._policy.drain_s)

    def _finished(self, ticket: Ticket, result: Result) -> None:
        is_undone = bool(self._undone) and any(result.error is failure for failure in self._undone)
        self._delivery.settle(ticket, result, is_undone=is_undone)
        if reason := self._scheduler.reason_to_stop():
            self.stop(reason, cancelled(f"{self._scheduler.failed_so_far()}, {_TOO_MUCH[reason]}"))

    @acting
    def _committed(self, number: int) -> None:
        self._delivery.committed(number)
        self._starts.at_once()
        self._starts.is_quiet.set()

    @acting
    def _broken(self, error: GraphmillError) -> None:
        """End at once, and say nothing of what is not durable: the journal has failed, or somebody else has the run."""
        log.error("the journal failed: %s", error)
        self._fault = self._fault or error
        self._delivery.forget()
        self._patience_s = HASTE_S
        self._workers.hasten(HASTE_S)
        self.stop(StopReason.JOURNAL, cancelled("the journal failed"))
        self._delivery.forget()
        self._arrived.set()
        self._starts.is_quiet.set()

    @acting
    def _asked(self, word: str, argument: str) -> None:
        obey(self, word, argument)

    def _show(self, job: Job, result: Result) -> None:
        """Count a result, tell of it, hand it out."""
        self._figures.add(result)
        self._pulse.saw(result, self._loop.time())
        if self._audience.has_observers:
            self._audience.tell(events.JobFinished, result=result)
        self._audience.show(job, result)

    def _deliver(self, result: Result) -> None:
        if self._outbox.put(result):
            self._arrived.set()

    def _source_ended(self, count: int, error: GraphmillError | None) -> None:
        self._source_error = error
        self._scheduler.acquit()
        if error is None:
            self._figures.end_source(count)
        self._audience.tell(events.SourceEnded, count=count, error=None if error is None else str(error))
        self._arrived.set()

    @acting
    def _end_running(self, failure: Failure, within_s: float) -> None:
        """End what runs, within some time or, for no time, now."""
        if self._draining is not None:
            self._draining.cancel()
            self._draining = None
        if within_s:
            self._draining = self._loop.call_later(within_s, self._end_running, failure, 0.0)
            return
        for ticket in self._scheduler.under_way():
            self._attempts.condemn(ticket, Verdict(failure, is_final=True))

    @acting
    def _unhang_results(self) -> None:
        """See to it, once the run was stopped, that no single call of ``on_result`` holds its end for long."""
        self._audience.unhang_results()
        self._unhanging = self._loop.call_later(SETTLE_S, self._unhang_results)

    @acting
    def _abandoned(self) -> None:
        if self._workers.stuck > MOST_STUCK and self.stop(
            StopReason.STUCK, cancelled("too many abandoned functions still run")
        ):
            log.error(
                "%d abandoned functions still run; the run stops before it is buried under them", self._workers.stuck
            )

    @acting
    def _batch_expired(self) -> None:
        message = f"the batch's {self._policy.batch_timeout_s:g} s are over"
        self.stop(StopReason.DEADLINE, cancelled(message), running=timed_out(message))

    def crash(self, error: BaseException) -> None:
        """End with a fault of ours."""
        if self._fault is None:
            self._fault = InternalError(described(error))
            self._fault.__cause__ = error
        self._arrived.set()
        self._starts.is_quiet.set()
