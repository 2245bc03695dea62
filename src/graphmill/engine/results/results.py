"""From a job's end to its reader: settle > write > committed > show (count it, notify observers, hand it out).

Nothing is counted, shown or handed out before it is durable. In a run without a journal everything is durable at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from graphmill.core.job import Effect, Job
from graphmill.core.result import Result
from graphmill.engine.jobs.state import JobState
from graphmill.engine.monitor import events
from graphmill.engine.monitor.observers import Observers
from graphmill.engine.results.recorder import GATHER_S, LastStep, Recorder
from graphmill.engine.results.statistics import RunStatistics
from graphmill.engine.scheduling.scheduler import Scheduler
from graphmill.engine.timers import Timers, ends_run_on_error

SHOW_S = 0.001  # at low concurrency the next item starts before results are shown: several commits are shown together


class Commits:
    """What waits until the journal is durable up to a number."""

    def __init__(self, scheduler: Scheduler, recorder: Recorder) -> None:
        self._scheduler = scheduler
        self._recorder = recorder
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._changed = asyncio.Event()
        self.is_forgotten = False

    def after(self, number: int, act: Callable[[], None]) -> None:
        """Act once this is durable, and have it committed soon."""
        if not self.is_forgotten:
            self._waiting.append((number, act))
            self._recorder.hurry()

    def count(self, number: int, effect: Effect) -> None:
        """Count this as uncommitted until it is durable: it would be repeated after a crash."""
        if number and not self.is_forgotten:
            uncommitted = self._scheduler.uncommitted
            uncommitted.add(effect)
            self._waiting.append((number, partial(uncommitted.remove, [effect])))
            if self._scheduler.should_commit_now:
                self._recorder.hurry()

    def committed(self, number: int) -> None:
        """Do what waited for this."""
        while self._waiting and self._waiting[0][0] <= number:
            self._waiting.popleft()[1]()
        self._changed.set()

    def forget(self) -> None:
        """Stop waiting: what is not durable by now has not happened."""
        self.is_forgotten = True
        self._waiting.clear()
        self._changed.set()

    async def wait(self) -> None:
        """Wait until everything is durable, or forgotten."""
        self._recorder.hurry()
        while self._waiting:
            self._changed.clear()
            await self._changed.wait()


class Results:
    """Takes the result of each job that ends, has it recorded, and shows it."""

    def __init__(
        self,
        scheduler: Scheduler,
        recorder: Recorder,
        commits: Commits,
        observers: Observers,
        *,
        outbox: Outbox,
        statistics: RunStatistics,
        crash: Callable[[BaseException], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._scheduler = scheduler
        self._recorder = recorder
        self.commits = commits
        self._observers = observers
        self.outbox = outbox
        self._tally = statistics.tally
        self.crash = crash
        self._settled: list[tuple[JobState, Result, Any]] = []  # with its body; to be written
        self._unrecorded: list[tuple[Job, Result]] = []  # only to be shown
        self._durable: list[tuple[Job, Result]] = []  # to be shown
        self._is_flushing = False
        self._timers = Timers(self._loop)

    # -- settle --------------------------------------------------------------------------------------------------------

    def settle(self, job: JobState, result: Result, body: Any, *, is_pending: bool) -> None:
        """Take a result. That of an item which a stop left pending is shown and not recorded."""
        recorder, record = self._recorder, job.existing_record
        recorder.leave(job.job)
        if is_pending and record is not None and record.last_step is not None:
            recorder.step(job.job, *record.last_step)
        if is_pending or not recorder.is_recording:
            self._unrecorded.append((job.job, result))
        else:
            self._scheduler.uncommitted.add(job.job.effect)
            self._settled.append((job, result, body))
        if self._is_flushing:
            return
        if not recorder.is_recording or self._scheduler.should_commit_now:
            self._is_flushing = True  # two turns late: what takes the free slots is under way then
            self._loop.call_soon(self._loop.call_soon, self._flush)
        elif not self._timers.is_set("gather"):
            self._timers.set("gather", GATHER_S, self._flush)

    # -- write ---------------------------------------------------------------------------------------------------------

    @ends_run_on_error
    def _flush(self) -> None:
        self._is_flushing = False
        self._timers.cancel("gather")
        self.flush()

    def flush(self) -> None:
        """Write what was settled, and show what needs no record."""
        settled, unrecorded, self._settled, self._unrecorded = self._settled, self._unrecorded, [], []
        if self.commits.is_forgotten:
            return
        for job, result in unrecorded:
            self._show(job, result)
        number = 0
        for state, result, body in settled:
            number = self._recorder.finish(state.job, result, body, _last_step(state))
            state.existing_record = None
        if settled:
            self.commits.after(number, partial(self._committed, settled))
        elif unrecorded:
            self._recorder.hurry()

    # -- committed -----------------------------------------------------------------------------------------------------

    def _committed(self, settled: list[tuple[JobState, Result, Any]]) -> None:
        self._scheduler.uncommitted.remove([state.job.effect for state, _, _ in settled])
        if not self._durable:
            self._timers.set("show", SHOW_S, self._show_later)
        self._durable += [(state.job, result) for state, result, _ in settled]

    @ends_run_on_error
    def _show_later(self) -> None:
        self.show_durable()

    def show_durable(self) -> None:
        """Show everything that is durable."""
        durable, self._durable = self._durable, []
        for job, result in durable:
            self._show(job, result)

    # -- show ----------------------------------------------------------------------------------------------------------

    def _show(self, job: Job, result: Result) -> None:
        """Count a result, notify observers, and hand it out once ``on_result`` has seen it."""
        self._tally.add(result)
        if self._observers.has_observers:
            self._observers.notify(events.JobFinished, result=result)
        if self._observers.on_result is None:
            self.outbox.put(result)
        else:
            self._observers.on_result.offer(job, result)

    def forget(self) -> None:
        """Show nothing that is not durable by now: the journal has failed."""
        self.commits.forget()
        self._settled.clear()
        self._unrecorded.clear()

    def close(self) -> None:
        """Leave no timer behind."""
        self._timers.close()


class Outbox:
    """Results waiting for the reader, as completed or in input order; bounded by the window, which counts them.

    In input order a slow item holds back all results after it and, once the window is full, the source.
    """

    def __init__(self, position_of: Callable[[str], int]) -> None:
        self._position_of = position_of
        self._completed: list[Result] = []
        self._waiting: dict[int, Result] = {}
        self._next = 0
        self._arrived = asyncio.Event()
        self.is_ordered = False

    def put(self, result: Result) -> None:
        """Add a result."""
        if not self.is_ordered:
            self._completed.append(result)
            self._arrived.set()
            return
        position = self._position_of(result.job_id)
        self._waiting[position] = result
        if position == self._next:
            self._arrived.set()

    def take(self) -> list[Result]:
        """Remove and return all results whose turn it is."""
        if not self.is_ordered:
            taken, self._completed = self._completed, []
            return taken
        taken = []
        while (result := self._waiting.pop(self._next, None)) is not None:
            taken.append(result)
            self._next += 1
        return taken

    def order(self) -> None:
        """Hand out in input order from now on, what has completed so far included."""
        self.is_ordered = True
        self._waiting.update((self._position_of(result.job_id), result) for result in self._completed)
        self._completed.clear()

    def wake(self) -> None:
        """Wake the reader: the run has ended, or is about to."""
        self._arrived.set()

    async def wait(self) -> None:
        """Wait for a result, or to be woken."""
        self._arrived.clear()
        await self._arrived.wait()


def _last_step(state: JobState) -> LastStep | None:
    return None if state.existing_record is None else state.existing_record.last_step
