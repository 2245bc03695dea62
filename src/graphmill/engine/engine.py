"""The engine of one run: makes its parts, takes requests from outside, and stops it.

The parts call three things here: ``schedule_starts`` when something may start, ``job_ended`` with each result, and
``lane_changed``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from graphmill.core.errors import ChangedError, GraphmillError, InternalError, UsageError, describe_error
from graphmill.core.result import Failure, Result, StopReason
from graphmill.core.usage import spent_nano, to_nano
from graphmill.engine.admission import Admission, Bind
from graphmill.engine.attempts.workers import Workers
from graphmill.engine.failures import Classifier, cancelled, paused, timed_out
from graphmill.engine.jobs.driver import Driver
from graphmill.engine.jobs.life import Lives
from graphmill.engine.jobs.state import Branch, JobEnd, JobState
from graphmill.engine.jobs.steps import Steps
from graphmill.engine.monitor import events
from graphmill.engine.monitor.events import Alert, AlertName
from graphmill.engine.monitor.machine import Readable
from graphmill.engine.monitor.monitor import Monitor
from graphmill.engine.monitor.observers import SETTLE_S, Hooks, Observers
from graphmill.engine.monitor.tracing import Tracing
from graphmill.engine.policy import Policy
from graphmill.engine.results.recorder import NullRecorder, Recorder
from graphmill.engine.results.results import Commits, Outbox, Results
from graphmill.engine.results.statistics import Progress, RunStatistics, Statistics
from graphmill.engine.scheduling.budget import Budget, BudgetGate
from graphmill.engine.scheduling.health import HealthState
from graphmill.engine.scheduling.lanes import Lane
from graphmill.engine.scheduling.nested_calls import NestedCalls
from graphmill.engine.scheduling.scheduler import Scheduler
from graphmill.engine.timers import Timers, ends_run_on_error

LOOK_EVERY_S = 0.5
MAX_STUCK = 100
HURRIED_S = 0.5

_TOO_MANY_FAILURES = {
    StopReason.FAIL_FAST: "and the first failure ends the run",
    StopReason.MAX_FAILURES: "more than the {allowed} that max_failures allows",
}

log = logging.getLogger("graphmill")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What a run is started with.

    ``bind`` makes the job of an item, ``accept`` is called with every output, ``total`` is None if unknown.
    ``open_recorder`` takes the run in a journal; it blocks, and is called in a thread. ``wall`` is the wall clock; the
    run itself uses its loop's clock.
    """

    policy: Policy
    hooks: Hooks
    random: Random
    machine: Readable
    wall: Callable[[], float]
    bind: Bind | None
    accept: Callable[[Any], Any] | None
    total: int | None
    open_recorder: Callable[[], Recorder] | None


class Engine:
    """One run on one loop, from its making to ``close``."""

    def __init__(self, scheduler: Scheduler, options: RunOptions, recorder: Recorder | None) -> None:
        policy = options.policy
        loop = asyncio.get_running_loop()
        self._scheduler = scheduler
        self._recorder = recorder or NullRecorder(None, total=options.total, accept=options.accept)
        self._workers = Workers(policy, self._recorder, abandoned=self._attempt_abandoned)
        outbox = Outbox(scheduler.position_of)
        self._observers = Observers(options.hooks, self._workers, window=scheduler.window, deliver=outbox.put)
        self.budget_gate = self._open_budget(policy, loop)
        budget = None if self.budget_gate is None else self.budget_gate.budget
        self._statistics = RunStatistics(scheduler, self._recorder, budget, now=loop.time())
        self._monitor = Monitor(
            self, scheduler, self._recorder, self._statistics, self._observers, options, now=loop.time()
        )  # fmt: skip
        commits = Commits(scheduler, self._recorder)
        self._results = Results(
            scheduler, self._recorder, commits, self._observers,
            outbox=outbox, statistics=self._statistics, crash=self.crash,
        )  # fmt: skip
        scheduler.lanes.clock = loop.time
        self._tracing = Tracing.start(self._recorder)
        self._driver = self._make_driver(policy, options.random, commits)
        self._admission = Admission(self, scheduler, self._workers, bind=options.bind)
        self._timers = Timers(loop)
        self._stop = StopState(policy)
        self._observers.notify(events.RunStarted, concurrency=scheduler.limit, total=self._recorder.total)
        if policy.batch_timeout_s is not None:
            self._timers.set("batch timeout", policy.batch_timeout_s, self._batch_expired, policy.batch_timeout_s)
        self._look()
        scheduler.holds.suspects = self._recorder.suspects
        self._recorder.open(committed=self._committed, broken=self._journal_failed, asked=self._requested)
        if self._tracing is not None:
            self._tracing.note(self._recorder)

    def _open_budget(self, policy: Policy, loop: asyncio.AbstractEventLoop) -> BudgetGate | None:
        if policy.budget_usd is None:
            return None
        budget = Budget(to_nano(policy.budget_usd), spent_nano(self._recorder.usage))
        return BudgetGate(self, budget, loop, self._recorder.save_committed)

    def _make_driver(self, policy: Policy, random: Random, commits: Commits) -> Driver:
        scheduler, workers = self._scheduler, self._workers
        classifier = Classifier(policy.classify)
        lives = Lives(
            self, scheduler, workers, commits, self._recorder,
            policy=policy, random=random, observers=self._observers, classifier=classifier,
        )  # fmt: skip
        nested_calls = NestedCalls(self, scheduler.lanes, workers.loop, classifier)
        steps = Steps(
            workers, commits, self._recorder, nested_calls,
            retry=policy.retry, classifier=classifier, random=random, tracing=self._tracing,
            budget_gate=self.budget_gate,
        )  # fmt: skip
        return Driver(
            self, scheduler, workers, lives, steps,
            policy=policy, commits=commits, results=self._results,
            observers=self._observers, tracing=self._tracing,
        )  # fmt: skip

    # -- what the reader calls -----------------------------------------------------------------------------------------

    @ends_run_on_error
    def open(self, jobs: Any) -> None:
        """Begin to admit jobs."""
        self._admission.open(jobs, in_order=self._results.outbox.is_ordered)

    def order(self) -> None:
        """Hand out results in input order from now on."""
        if self._admission.is_reordered:
            raise UsageError(
                "ask for ordered results before the run has started: its list was already ordered by priority"
            )
        self._results.outbox.order()

    async def take(self) -> list[Result]:
        """Return all results that are ready, at least one, or none at the end; raise the error that ended the run."""
        while not (taken := self._results.outbox.take()):
            if self._stop.fault is not None:
                raise self._stop.fault
            if self._admission.is_over and not self._scheduler.unfinished:
                self._statistics.end(self._workers.loop.time())
                if self._stop.source_error is not None:
                    raise self._stop.source_error
                break
            await self._results.outbox.wait()
        return taken

    def release(self, result: Result) -> None:
        """Free a taken result's place in the window."""
        self._scheduler.release(result.job_id)
        self._admission.refill()

    def call_in_thread(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call a plain function in a thread of the run."""
        return self._workers.submit(function)

    def progress(self) -> Progress:
        """Return the run's progress."""
        return self._statistics.progress(self._workers.loop.time())

    def statistics(self) -> Statistics:
        """Return the figures so far."""
        hook_errors = self._observers.errors
        return self._statistics.statistics(
            self._workers.loop.time(), stuck=self._workers.stuck, hook_errors=hook_errors
        )

    @property
    def run_id(self) -> str | None:
        """The id under which the run is recorded; None if it is not."""
        return self._recorder.run_id if self._recorder.is_recording else None

    @property
    def stopped(self) -> StopReason | None:
        """Why the run ended early; None if it did not."""
        return self._stop.reason

    @property
    def stopped_because(self) -> str:
        """The reason in words."""
        return self._stop.message

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to admit, to start or to end."""
        return self._admission.is_over and not self._scheduler.active

    # -- requests from outside -----------------------------------------------------------------------------------------

    def set_limit(self, concurrency: int | None, adaptive: bool | None) -> bool:  # noqa: FBT001
        """Change how many attempts may run at once, and whether limits adapt; return whether the run was not over."""
        before = self._scheduler.limit
        concurrency = before if concurrency is None else concurrency
        self._scheduler.set_limit(concurrency, adaptive)
        if self.is_over:
            return False
        self._recorder.note(limit=concurrency, adaptive=adaptive)
        self._observers.notify(events.ConcurrencyChanged, before=before, after=concurrency, key=None, reason="as set")
        self.schedule_starts()
        return True

    def pause(self) -> bool:
        """Start nothing new; running attempts continue. Return whether that changed anything."""
        if self._scheduler.holds.is_paused or self.stopped is not None or self.is_over:
            return False
        self._set_paused(is_paused=True)
        return True

    def unpause(self) -> bool:
        """Start jobs again; return whether the run was paused."""
        if not self._scheduler.holds.is_paused:
            return False
        self._set_paused(is_paused=False)
        self.schedule_starts()
        return True

    def _set_paused(self, *, is_paused: bool) -> None:
        self._scheduler.holds.is_paused = is_paused
        self._statistics.note_hold(self._workers.loop.time())
        self._observers.report_hold(self._scheduler.holds.reason)
        if self.stopped is None:
            self._recorder.note(state="paused" if is_paused else "running")

    @ends_run_on_error
    def _requested(self, word: str, argument: str) -> None:
        """Apply a request that came through the journal; what can't be done is logged."""
        match word:
            case "pause":
                self.pause()
            case "unpause":
                self.unpause()
            case "cancel":
                self.cancel()
            case "cancel_item" if not self._cancel_named(argument):
                log.warning("can't cancel item %.80s: it is not running or queued", argument)
            case "limit":
                try:
                    self.set_limit(*_read_limit(argument))
                except ValueError as error:  # a UsageError too
                    log.warning("can't set the limit to %.20s: %s", argument, error)

    # -- the stop sequence ---------------------------------------------------------------------------------------------

    def cancel_job(self, job_id: str) -> bool:
        """Cancel one job; return whether it was unfinished."""
        job = self._scheduler.find(job_id)
        if job is None or job.is_finished:
            return False
        self._driver.end_job(job, cancelled("the job was cancelled"))
        return True

    def _cancel_named(self, name: str) -> bool:
        job = self._scheduler.find_named(name)
        return job is not None and self.cancel_job(job.job.id)

    def cancel(self) -> bool:
        """Cancel the whole run; return whether there was something to cancel."""
        return self.stop(StopReason.CANCELLED, cancelled("the run was cancelled"))

    def interrupt(self) -> bool:
        """End the run because its task was cancelled: one that is recorded is paused, and can be resumed."""
        if not self._recorder.is_recording:
            return self.cancel()
        return self.stop(StopReason.REQUEST, paused("interrupted before it was done"))

    def drain(self, reason: StopReason, message: str, *, within_s: float) -> bool:
        """Stop, but let running attempts end within this time. Calling again restarts the time; 0 ends them at once."""
        if not within_s:
            self._hurry()
        troubles = (
            []
            if reason in (StopReason.OUTAGE, StopReason.BUDGET)
            else self._scheduler.lanes.troubles(self._workers.loop.time())
        )
        return self.stop(reason, paused("; ".join([message, *troubles])), within_s=within_s)

    def stop(
        self, reason: StopReason, failure: Failure, *, running: Failure | None = None, within_s: float = 0.0
    ) -> bool:
        """Admit nothing more and end what runs, now or within some time. Return whether anything had to end."""
        if self.is_over:
            self._watch_on_result()  # nothing is left to end but one that hangs
            return False
        stop = self._stop
        stop.failures += [failure, running or failure]
        if stop.reason is None:
            stop.reason, stop.message = reason, failure.message
            self._admission.close()
            self._observers.notify(events.RunStopped, reason=reason, message=failure.message)
            self._driver.stop(failure)
            if self.budget_gate is not None:
                self.budget_gate.stop(failure)
            self._watch_on_result()
            self._results.outbox.wake()
        elif not self._timers.is_set("drain"):
            return False
        self._end_running(running or failure, within_s)
        if within_s:
            self._monitor.note_draining(self._workers.loop.time())
        return True

    @ends_run_on_error
    def _end_running(self, failure: Failure, within_s: float) -> None:
        """End what runs, within some time or now."""
        self._timers.cancel("drain")
        if within_s:
            self._timers.set("drain", within_s, self._end_running, failure, 0.0)
            return
        for job in self._scheduler.begun():
            self._driver.end_job(job, failure)

    def _watch_on_result(self) -> None:
        if not self._timers.is_set("unhang"):  # two looks at one instant would take a slow call for one that hangs
            self._unhang_results()

    @ends_run_on_error
    def _unhang_results(self) -> None:
        """Once the run is stopped, let no single call of ``on_result`` hold up its end for long."""
        self._observers.unhang_results()
        self._timers.set("unhang", SETTLE_S, self._unhang_results)

    def _hurry(self) -> None:
        self._stop.patience_s = HURRIED_S
        self._workers.hasten(HURRIED_S)

    async def close(self) -> None:
        """End the run: wait for the last attempts, report the last results, leave no timer, task or thread behind."""
        try:
            try:
                await self._wait_quiet()
            except asyncio.CancelledError:  # the first one doesn't cut short what functions do to end in order
                await self._wait_quiet()
                self._results.flush()  # observers see what is counted, whatever else is cut short
                await self._observers.settle(HURRIED_S)
                raise
            self._results.flush()
            await self._results.commits.wait()
            self._results.show_durable()
            self._statistics.end(self._workers.loop.time())
            self._observers.report_progress(self.progress)
            self._observers.notify(events.RunFinished, statistics=self.statistics())
            await self._observers.settle(self._stop.patience_s)
        finally:
            try:
                await self._clean_up()
            finally:
                if self._tracing is not None:
                    self._tracing.close(self.stopped, self._stop.fault or self._stop.source_error)
                await self._close_recorder()

    async def _wait_quiet(self) -> None:
        """Wait until no attempt runs: each ends, or is abandoned after its grace period."""
        is_quiet = self._driver.starts.is_quiet
        while self._scheduler.running and self._stop.fault is None:
            is_quiet.clear()
            await is_quiet.wait()

    async def _clean_up(self) -> None:
        self._driver.starts.close()
        self._timers.close()
        self._results.close()
        self._admission.close()
        self._driver.close()
        try:
            await self._admission.wait_closed(self._workers.grace.seconds)
        finally:
            self._scheduler.lanes.close()
            await self._workers.close()

    async def _close_recorder(self) -> None:
        fault = self._stop.fault
        error = self._stop.source_error or fault
        try:
            await self._recorder.close(
                stopped=self.stopped,
                because=self.stopped_because if error is None else str(error),
                is_refused=isinstance(error, ChangedError),
                is_read=self._admission.is_at_end,
                elapsed_s=self._statistics.elapsed_s(self._workers.loop.time()),
            )
        except GraphmillError:
            if fault is None:  # else it was reported already
                raise

    # -- what the parts call -------------------------------------------------------------------------------------------

    def schedule_starts(self) -> None:
        """Start what can start, soon."""
        self._driver.starts.schedule()

    def hold(self, branch: Branch, *, is_held: bool) -> None:
        """Note whether a branch waits until a server takes its call: time limits above it stand still."""
        self._driver.hold(branch, is_held=is_held)

    def refill(self) -> None:
        """Admit more items, if there is room for them."""
        self._admission.refill()

    def job_ended(self, job: JobState, result: Result, end: JobEnd) -> None:
        """Take the result of a job."""
        is_pending = any(result.error is failure for failure in self._stop.failures)
        self._results.settle(job, result, end.body, is_pending=is_pending)
        if reason := self._scheduler.failures.reason_to_stop():
            failures = self._scheduler.failures
            self.stop(reason, cancelled(f"{failures}, {_TOO_MANY_FAILURES[reason].format(allowed=failures.allowed)}"))

    def lane_changed(self, lane: Lane, limit: int, state: HealthState) -> None:
        """Report that a lane's limit or health has changed; these are the earlier ones."""
        if lane.limit != limit:
            self._observers.notify(
                events.ConcurrencyChanged, before=limit, after=lane.limit, key=lane.key, reason=lane.reason
            )
        if lane.health.state is not state:
            self._health_changed(lane, state)

    def _health_changed(self, lane: Lane, before: HealthState) -> None:
        health = lane.health
        self._observers.notify(events.HealthChanged, key=lane.key, state=health.state, reason=health.reason)
        if health.state is HealthState.CLOSED:
            log.info("%savailable again", f"{lane.key}: " if lane.key else "")
        elif before is HealthState.CLOSED or health.state is HealthState.GIVEN_UP:
            name: AlertName = "outage" if health.state is HealthState.GIVEN_UP else "unavailable"
            self._observers.alert(Alert(name=name, message=f"{name}: {lane.trouble}"))
        if health.state is HealthState.GIVEN_UP and self.stopped is None:
            self.drain(StopReason.OUTAGE, lane.trouble, within_s=self._stop.drain_s)

    def stop_for_budget(self, why: str = "") -> None:
        """Stop because nothing more may start under the budget, or because it cannot be kept."""
        if self.budget_gate is not None and self.stopped is None:
            message = why or str(self.budget_gate.budget)
            self.drain(StopReason.BUDGET, message, within_s=self._stop.drain_s)

    def source_ended(self, count: int, error: GraphmillError | None) -> None:
        """Note that the source has ended after so many items, or failed."""
        self._stop.source_error = error
        self._scheduler.clear_suspects()
        if error is None:
            self._statistics.end_source(count)
        self._observers.notify(events.SourceEnded, count=count, error=None if error is None else str(error))
        self._results.outbox.wake()

    def crash(self, error: BaseException) -> None:
        """End the run with a bug of ours."""
        if self._stop.fault is None:
            self._stop.fault = InternalError(describe_error(error))
            self._stop.fault.__cause__ = error
        self._results.outbox.wake()
        self._driver.starts.is_quiet.set()

    @ends_run_on_error
    def _committed(self, number: int) -> None:
        self._results.commits.committed(number)
        self._driver.starts.start_now()
        self._driver.starts.is_quiet.set()

    @ends_run_on_error
    def _journal_failed(self, error: GraphmillError) -> None:
        """End now and report nothing that is not durable: the journal has failed, or another process owns the run."""
        log.error("the journal failed")  # the error itself is raised when the run has ended
        self._stop.fault = self._stop.fault or error
        self._results.forget()
        self._hurry()
        self.stop(StopReason.JOURNAL, cancelled("the journal failed"))
        self._results.forget()
        self._results.outbox.wake()
        self._driver.starts.is_quiet.set()

    @ends_run_on_error
    def _look(self) -> None:
        self._monitor.look(self._workers.loop.time())
        self._timers.set("look", LOOK_EVERY_S, self._look)

    @ends_run_on_error
    def _attempt_abandoned(self) -> None:
        stuck = self._workers.stuck
        if stuck > MAX_STUCK and self.stop(StopReason.STUCK, cancelled("too many abandoned functions still run")):
            log.error("%d abandoned functions still run; the run stops before they use up the machine", stuck)

    @ends_run_on_error
    def _batch_expired(self, timeout_s: float) -> None:
        message = f"batch_timeout_s of {timeout_s:g} s exceeded"
        self.stop(StopReason.DEADLINE, cancelled(message), running=timed_out(message))


def _read_limit(argument: str) -> tuple[int | None, bool | None]:
    """Read what ``graphmill limits`` asks for: a concurrency, whether limits adapt, or both."""
    concurrency, _, adaptive = argument.partition(" ")
    return int(concurrency) if concurrency else None, {"adaptive": True, "fixed": False}.get(adaptive)


class StopState:
    """Why and how a run stops. Items that end with one of ``failures`` stay pending: a resume runs them."""

    __slots__ = ("drain_s", "failures", "fault", "message", "patience_s", "reason", "source_error")

    def __init__(self, policy: Policy) -> None:
        self.reason: StopReason | None = None
        self.message = ""
        self.failures: list[Failure] = []
        self.source_error: GraphmillError | None = None
        self.fault: GraphmillError | None = None  # a bug of ours, or a journal that failed
        self.drain_s = policy.drain_s  # how long running attempts may go on
        self.patience_s = SETTLE_S  # how long hooks may take to see the last results
