"""The driver resumes the lives of jobs with what they waited for, and begins what they wait for next.

It owns every timer, and is the only thing that wakes anything up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from graphmill.core.result import RUNNING, Failure
from graphmill.engine.attempts.workers import Attempt, Workers
from graphmill.engine.failures import cancelled, timed_out
from graphmill.engine.jobs.branches import Branches, Replay
from graphmill.engine.jobs.context import AttemptContext
from graphmill.engine.jobs.life import (
    Committed,
    Dropped,
    FunctionStep,
    Lives,
    RecordedTurn,
    ReplayOver,
    RunAttempt,
    RunFork,
    Sleep,
    TakeSlot,
)
from graphmill.engine.jobs.program import Failed, Programmed
from graphmill.engine.jobs.state import AttemptState, Branch, CancelReason, JobEnd, JobState
from graphmill.engine.jobs.steps import Steps
from graphmill.engine.monitor.observers import PAUSE_S, Observers
from graphmill.engine.monitor.tracing import Tracing
from graphmill.engine.policy import Policy
from graphmill.engine.results.results import Commits, Results
from graphmill.engine.scheduling.health import HealthState
from graphmill.engine.scheduling.lanes import Lane, SlotRequest
from graphmill.engine.scheduling.nested_calls import NestedCall
from graphmill.engine.scheduling.scheduler import Scheduler
from graphmill.engine.timers import Deadlines, ends_run_on_error

if TYPE_CHECKING:
    from graphmill.engine.engine import Engine

_MAX_STARTS_PER_TURN = 20  # so that no turn of the loop is long
WAITS_FOR_ATTEMPT = "attempt"


class StartLoop:
    """Starts what can start: the one wake-up of a run."""

    def __init__(
        self,
        driver: Driver,
        engine: Engine,
        scheduler: Scheduler,
        results: Results,
        observers: Observers,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._driver = driver
        self._engine = engine
        self.crash = engine.crash
        self._scheduler = scheduler
        self._results = results
        self._observers = observers
        self._loop = loop
        self._starting: asyncio.Handle | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.is_quiet = asyncio.Event()  # nothing runs; or somebody should look whether that is so

    def schedule(self) -> None:
        """Start what can start, in the next turn of the loop, when the whole present burst is known."""
        if self._starting is None and not self._is_closed:
            self._starting = self._loop.call_soon(self._start)

    def start_now(self) -> None:
        """Start what can start: nothing more comes in this turn."""
        if self._starting is None and not self._is_closed:
            self._start()

    def start_or_flush(self) -> None:
        """Start the next now that nothing runs or, if uncommitted results hold up its slot, write those."""
        if not self._scheduler.has_slot():
            self._results.flush()
        elif not self._is_closed:
            if self._starting is not None:
                self._starting.cancel()
            self._start()

    def close(self) -> None:
        """Start nothing more."""
        self._is_closed = True
        for call in (self._starting, self._next_look):
            if call is not None:
                call.cancel()

    @ends_run_on_error
    def _start(self) -> None:
        if not self._scheduler.running:
            self.is_quiet.set()
        now = self._loop.time()
        if self._observers.has_observers and self._observers.need_pause():
            self._look_again(now + PAUSE_S, self._start)
            return
        self._starting = None
        self._driver.set_now()
        for _ in range(_MAX_STARTS_PER_TURN):
            request = self._scheduler.start_next(now)
            if request is None:
                self._look_again(self._scheduler.opens_at(now), self.schedule)
                break
            self._driver.grant(request)
        else:
            self.schedule()
        self._engine.refill()

    def _look_again(self, at: float | None, act: Callable[[], None]) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
        self._next_look = None if at is None else self._loop.call_at(at, act)


class Driver:
    """Drives the jobs of one run."""

    def __init__(  # noqa: PLR0913  what it works with
        self,
        engine: Engine,
        scheduler: Scheduler,
        workers: Workers,
        lives: Lives,
        steps: Steps,
        *,
        policy: Policy,
        commits: Commits,
        results: Results,
        observers: Observers,
        tracing: Tracing | None,
    ) -> None:
        self._engine = engine
        self.crash = engine.crash
        self._scheduler = scheduler
        self._workers = workers
        self._loop = workers.loop
        self._lives = lives
        self._policy = policy
        self._commits = commits
        self._tracing = tracing
        self.starts = StartLoop(self, engine, scheduler, results, observers, self._loop)
        self._branches = Branches(self, lives, self._loop)
        self._attempts = Attempts(self, scheduler, lives, workers, steps, tracing)
        self._job_deadlines = Deadlines(self._loop, policy.job_timeout_s, self._job_expired)

    def set_now(self) -> None:
        """Read the clock, at the start of a callback."""
        self._lives.now = self._loop.time()

    # -- from slot to life ---------------------------------------------------------------------------------------------

    def grant(self, request: SlotRequest) -> None:
        """Begin or resume the owner of a request that got its slot."""
        owner = request.owner
        if isinstance(owner, JobState):
            gate = self._engine.budget_gate
            if gate is not None and gate.budget.is_spent:
                self._engine.stop_for_budget()
            else:
                self._begin_job(owner, request)
        elif owner is not None:
            owner.slot = request
            self._occupy(request, owner.branch.job)
            self.resume(owner.branch)
        elif isinstance(request, NestedCall):
            request.admit(self._lives.now)  # its job has a slot already

    def _begin_job(self, job: JobState, entry: SlotRequest) -> None:
        now = self._lives.now
        job.started_at = now
        job.status = RUNNING
        graph = job.job.graph
        self._job_deadlines.set(job, now)
        if not isinstance(graph, Programmed):
            branch = job.main = Branch(job, None, None)
            branch.life = self._lives.run_function(branch)
            self._occupy(entry, job)
            self.resume(branch)
            return
        has_recording = self._lives.begin_recall(job)
        program = self._workers.call(
            graph.program, job.job.input, self._policy
        )  # the journal's thread may have woken us
        branch = job.main = Branch(job, program, None)
        branch.life = self._lives.run_job(branch)
        if has_recording:
            record = job.record
            record.replay = Replay(0 if record.recall is None else record.recall.since)
            self._branches.schedule_replay(job)
        self.resume(branch)
        job.entry = None

    def hold(self, branch: Branch, *, is_held: bool) -> None:
        """Note whether a branch waits until a server takes its call."""
        self._branches.hold(branch, is_held=is_held)

    def _occupy(self, request: SlotRequest, job: JobState) -> None:
        self._scheduler.occupy(request, job, self._lives.now)
        if request.is_probe:
            self._engine.lane_changed(request.lane, request.lane.limit, HealthState.OPEN)

    # -- resuming lives ------------------------------------------------------------------------------------------------

    def resume(self, branch: Branch, value: Any = None) -> None:
        """Resume a branch until it waits for something that takes time."""
        while True:
            try:
                wait = branch.life.send(value)
            except StopIteration as end:
                self._branch_ended(branch, end.value, None)
                return
            except Failed as end:
                self._branch_ended(branch, None, end.failure)
                return
            except Dropped:
                self._branch_dropped(branch)
                return
            if not self._begin_wait(branch, wait):
                return
            value = None

    def _begin_wait(self, branch: Branch, wait: Any) -> bool:
        """Begin what a branch waits for; return whether it is over already."""
        kind = type(wait)
        if kind is RunAttempt:
            self._attempts.begin(branch)
        elif kind is TakeSlot:
            branch.waits_for = request = wait.request
            if request.is_call and self._scheduler.has_slot():
                self._branches.hold(branch, is_held=not request.lane.can_start_now(request, self._lives.now))
            self._scheduler.enqueue(request)
            self.starts.schedule()
        elif kind is Sleep:
            branch.waits_for = self._loop.call_later(wait.seconds, self._resume_later, branch)
            self._branches.hold(branch, is_held=wait.is_asked)
        elif kind is Committed:
            branch.waits_for = WAITS_FOR_ATTEMPT
            self._commits.after(wait.number, partial(self._intent_committed, branch))
        elif kind is RecordedTurn:
            self._branches.wait_for_turn(branch, wait.order, wait.value)
        elif kind is ReplayOver:
            self._branches.wait_for_end_of_replay(branch)
        elif kind is RunFork:
            return self._branches.begin_fork(branch, wait.fork)
        else:
            raise TypeError(f"a life can't wait for {wait!r}")
        return False

    @ends_run_on_error
    def _resume_later(self, branch: Branch) -> None:
        self.set_now()
        self.resume(branch)

    @ends_run_on_error
    def _intent_committed(self, branch: Branch) -> None:
        """Resume a branch whose unsafe attempt may begin; one that was cancelled meanwhile returns its slot."""
        self.set_now()
        assert branch.step is not None  # noqa: S101
        assert branch.step.slot is not None  # noqa: S101
        lane = branch.step.slot.lane
        limit, health = lane.limit, lane.health.state
        self.resume(branch)
        self.report_lane(lane, limit, health)

    def report_lane(self, lane: Lane, limit: int, health: HealthState) -> None:
        """Report what a lane has learned from the end of an attempt."""
        if lane.limit != limit or lane.health.state is not health:
            self._engine.lane_changed(lane, limit, health)

    # -- ends ----------------------------------------------------------------------------------------------------------

    @ends_run_on_error
    def _job_expired(self, job: JobState) -> None:
        self.end_job(job, timed_out(f"job_timeout_s of {self._policy.job_timeout_s:g} s exceeded"))

    def end_job(self, job: JobState, failure: Failure) -> None:
        """End a job from outside: at once, or when its last attempt has ended or was abandoned."""
        branch = job.main
        if branch is None:
            if job.entry is not None:
                self._dequeue(job.entry)
            self._finish(job, JobEnd(failure=failure))
        elif branch.program is None and branch.waits_for is WAITS_FOR_ATTEMPT:
            self._cancel_attempt(branch, CancelReason(failure, is_final=True))
        else:
            job.end_failure = job.end_failure or failure
            self.drop(branch)
            self._finish_if_idle(job)

    def stop(self, failure: Failure) -> None:
        """Begin nothing more: what runs may end, and everything else ends with this failure now."""
        begun = self._scheduler.begun()
        for job in self._scheduler.stop(failure):
            self._finish(job, JobEnd(failure=failure))
        for job in begun:
            for branch in job.branches():
                if not branch.is_dropped and (isinstance(branch.waits_for, SlotRequest) or _is_sleeping(branch)):
                    job.end_failure = job.end_failure or failure
                    self.drop(branch)
            self._finish_if_idle(job)

    def close(self) -> None:
        """Leave no timer behind, and interrupt what still runs."""
        self._attempts.close()
        self._job_deadlines.close()
        self._branches.close()
        for job in self._scheduler.begun():
            for branch in job.branches():
                if isinstance(branch.waits_for, asyncio.TimerHandle):
                    branch.waits_for.cancel()
                attempt = None if branch.step is None else branch.step.attempt
                if attempt is not None and attempt.handle is not None:
                    attempt.handle.interrupt()

    def drop(self, branch: Branch) -> None:
        """Cancel a branch and those below it; one whose attempt runs is gone when that has ended."""
        branch.is_dropped = True
        self._branches.cancel_clock(branch)
        if branch.program is not None:
            branch.program.close()
        for child in list(branch.children):
            self.drop(child)
        waits_for, step = branch.waits_for, branch.step
        if waits_for is WAITS_FOR_ATTEMPT:
            self._cancel_attempt(branch, CancelReason(cancelled("it is no longer needed"), is_final=True))
            return
        if isinstance(waits_for, SlotRequest):
            self._dequeue(waits_for)
            self._leave_lane(branch, waits_for.lane)
        elif _is_sleeping(branch) and step is not None:
            self._scheduler.retrying -= 1
            self._leave_lane(branch, step.lane)
        if isinstance(waits_for, asyncio.TimerHandle):
            waits_for.cancel()
        branch.life.close()
        if not branch.children:  # else attempts below it are still ending, and a fork above waits for them too
            self._detach(branch)

    def _dequeue(self, request: SlotRequest) -> None:
        """Remove a request from the queue. If little is left there, the source is asked for more."""
        self._scheduler.dequeue(request)
        self.starts.schedule()

    def _cancel_attempt(self, branch: Branch, reason: CancelReason) -> None:
        if branch.step is not None and branch.step.attempt is not None:
            branch.step.attempt.cancel(reason)

    def _leave_lane(self, branch: Branch, lane: Lane) -> None:
        if branch.program is not None:
            self._scheduler.lanes.leave(lane)

    def _branch_ended(self, branch: Branch, value: Any, failure: Failure | None) -> None:
        self._detach(branch)
        job, parent = branch.job, branch.parent
        if parent is None:
            self._finish(job, value)
        elif parent.fork is not None:
            self._branches.child_ended(parent, branch, value, failure)
            self._finish_if_idle(job)

    def _branch_dropped(self, branch: Branch) -> None:
        """Continue whatever waited for a cancelled branch to give back its slot."""
        branch.is_dropped = True
        if branch.program is not None:
            branch.program.close()
        self._detach(branch)
        self._finish_if_idle(branch.job)
        parent = branch.parent
        while parent is not None and parent.is_dropped and not parent.children:
            self._detach(parent)
            parent = parent.parent
        if parent is not None:
            self._branches.child_dropped(parent)

    def _detach(self, branch: Branch) -> None:
        branch.step = None  # they refer to each other
        if branch.fork is not None:
            self._branches.cancel_clock(branch)
        if branch.parent is not None:
            branch.parent.children.pop(branch, None)
            self._branches.set_clocks(branch.parent)

    def _finish_if_idle(self, job: JobState) -> None:
        if job.end_failure is None or job.slots or job.is_finished:
            return
        for branch in job.branches():
            if not branch.is_dropped:
                self.drop(branch)
        self._finish(job, JobEnd(failure=job.end_failure))

    def _finish(self, job: JobState, end: JobEnd) -> None:
        self._job_deadlines.clear(job)
        result = self._scheduler.finish(job, end, self._loop.time())
        if self._tracing is not None:
            self._tracing.end_item(result)
        self._engine.job_ended(job, result, end)


class Attempts:
    """Begins the attempts of all branches, ends those that take too long, and takes the end of each, once."""

    def __init__(
        self,
        driver: Driver,
        scheduler: Scheduler,
        lives: Lives,
        workers: Workers,
        steps: Steps,
        tracing: Tracing | None,
    ) -> None:
        self._driver = driver
        self.crash = driver.crash
        self._scheduler = scheduler
        self._lives = lives
        self._workers = workers
        self._steps = steps
        self._tracing = tracing
        self._loop = workers.loop
        self._deadlines: dict[float, Deadlines[AttemptState]] = {}  # by time limit
        # The one whose end is being reported: its task is free.
        self._reusable: tuple[Branch, Attempt | None] | None = None

    def begin(self, branch: Branch) -> None:
        """Begin the attempt that a branch waits for."""
        branch.waits_for = WAITS_FOR_ATTEMPT
        if branch.is_held:
            self._driver.hold(branch, is_held=False)
        step = branch.step
        assert step is not None  # noqa: S101
        attempt = step.attempt
        assert attempt is not None  # noqa: S101
        if step.rules.timeout_s is not None:
            self._limit(attempt, step.rules.timeout_s)
        context = attempt.context = AttemptContext(self._steps, attempt, step.step.path)
        if self._tracing is not None:
            self._tracing.begin_attempt(context)
        crashed_before = branch.program is None and step.job.past.crashes > 0
        is_suspect = crashed_before or (step.tries is not None and step.tries.crashes > 0)
        if type(step.step) is FunctionStep:
            attempt.handle = self._workers.begin(
                step.job.graph, step.job.input, self._ended, context=context, is_suspect=is_suspect
            )
        else:
            reusable = self._reusable
            reuse = reusable[1] if reusable is not None and reusable[0] is branch else None
            attempt.handle = self._workers.begin_step(
                step.step, self._ended, context=context, is_suspect=is_suspect, reuse=reuse
            )

    def close(self) -> None:
        """Leave no timer behind."""
        for deadlines in self._deadlines.values():
            deadlines.close()

    def _limit(self, attempt: AttemptState, timeout_s: float) -> None:
        deadlines = self._deadlines.get(timeout_s)
        if deadlines is None:
            deadlines = self._deadlines[timeout_s] = Deadlines(self._loop, timeout_s, self._expired)
        attempt.deadlines = deadlines
        deadlines.set(attempt, self._lives.now)

    @ends_run_on_error
    def _expired(self, attempt: AttemptState) -> None:
        message = f"timed out after {attempt.step.rules.timeout_s:g} s"
        attempt.cancel(CancelReason(timed_out(message), is_final=False))

    @ends_run_on_error
    def _ended(self, attempt: AttemptState, value: Any, error: BaseException | None) -> None:
        """Report the end of an attempt; called exactly once for each, also for an abandoned one."""
        self._driver.set_now()
        if attempt.deadlines is not None:
            attempt.deadlines.clear(attempt)
        branch, slot = attempt.step.branch, attempt.step.slot
        if branch.is_held:
            self._driver.hold(branch, is_held=False)
        context, handle, attempt.handle, attempt.is_over = attempt.context, attempt.handle, None, True
        assert context is not None  # noqa: S101
        assert slot is not None  # noqa: S101
        calls = self._workers.thread_calls
        if calls.running and calls.end(context, partial(self._ended, attempt, value, error), self._lives.now):
            return  # what its threads asked for ends first: its usage is the attempt's
        self._driver.starts.schedule()
        lane = slot.lane
        limit, health = lane.limit, lane.health.state
        if self._tracing is not None:
            self._tracing.end_attempt(context, error)
        before, self._reusable = self._reusable, (branch, handle)
        attempt.context = None  # they refer to each other
        self._driver.resume(branch, (value, error, context))
        self._reusable = before
        self._driver.report_lane(lane, limit, health)
        if not self._scheduler.running:
            self._driver.starts.start_or_flush()


def _is_sleeping(branch: Branch) -> bool:
    return branch.fork is None and isinstance(branch.waits_for, asyncio.TimerHandle)
