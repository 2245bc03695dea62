"""BatchExecutor starts runs; Run is the handle of one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from random import Random
from threading import get_ident
from typing import Any, Self, TypeVar

from graphmill.core.errors import UsageError
from graphmill.core.job import Job
from graphmill.core.result import Result, Status, StopReason
from graphmill.engine.admission import Bind, known_length, require_series
from graphmill.engine.engine import Engine, RunOptions
from graphmill.engine.failures import cancelled
from graphmill.engine.monitor.events import Alert, Event
from graphmill.engine.monitor.machine import Machine, Readable
from graphmill.engine.monitor.observers import Hooks
from graphmill.engine.policy import Policy, require_policy, require_seconds
from graphmill.engine.results.recorder import Recorder, RecordsRuns
from graphmill.engine.results.statistics import Progress, Statistics
from graphmill.engine.scheduling.scheduler import Scheduler

T = TypeVar("T")
_MAX_ANSWER_S = 30.0
_LOOK_S = 0.05
_MAX_OPEN_S = 2.0


class BatchExecutor:
    """Runs jobs under a policy.

    ``on_result(job, result)`` sees every result, ``on_progress(progress)`` the latest progress twice a second,
    ``on_alert(alert)`` what the policy's alerts find, each observer all events. Plain functions among them are called
    in a thread, async ones on the loop; none can break the run. A slow ``on_result`` holds the source back; a slow
    observer misses events, and the log says how many.
    """

    def __init__(  # noqa: PLR0913  one parameter per choice
        self,
        policy: Policy | None = None,
        *,
        on_result: Callable[[Job, Result], Any] | None = None,
        on_progress: Callable[[Progress], Any] | None = None,
        on_alert: Callable[[Alert], Any] | None = None,
        observers: Sequence[Callable[[Event], Any]] = (),
        journal: RecordsRuns | None = None,
        random: Random | None = None,
        machine: Readable | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._policy = require_policy(policy)
        self._hooks = Hooks(on_result=on_result, on_progress=on_progress, on_alert=on_alert, observers=observers)
        self._random = random or Random()  # noqa: S311  spreads waits, guards nothing
        self._machine = machine or Machine()
        self._wall = wall
        if journal is not None and not hasattr(journal, "recorder"):
            raise UsageError(f"journal is an open one, gm.open_journal(path), not {journal!r:.80}")
        self._journal = journal

    def start(
        self,
        jobs: Iterable[Any] | AsyncIterable[Any],
        *,
        bind: Bind | None = None,
        total: int | None = None,
        accept: Callable[[Any], Any] | None = None,
        run_id: str | None = None,
        answers: Mapping[str, Any] | None = None,
        recorder: Callable[[], Recorder] | None = None,
    ) -> Run:
        """Return a run over these jobs; it begins when it is entered with ``async with``.

        With ``bind`` the items may be anything: ``bind(position, item)`` makes the job of an item. ``total`` is their
        number, for an iterable without a length. ``accept(output)`` is called with every output where it was made: what
        it returns replaces the output, what it raises fails the attempt. With the executor's ``journal`` the run is
        recorded as ``run_id``, new or resumed; ``answers``, by job id, are for jobs that wait for one. ``recorder``
        takes the run in a journal in some other way.
        """
        require_series(jobs)
        total = known_length(jobs) if total is None else total
        if (self._journal is not None or recorder is not None) and bind is not None:
            raise UsageError(
                "bind makes jobs of items, and a journal takes them as they are; give it jobs, or use gm.batch"
            )
        if self._journal is not None and recorder is None:
            recorder = partial(self._journal.recorder, jobs, run_id=run_id, total=total, answers=answers)
        elif run_id is not None or answers:
            raise UsageError(
                "run_id and answers are of a journal, and there is none: BatchExecutor(policy, "
                "journal=gm.open_journal())"
            )
        options = RunOptions(
            policy=self._policy,
            hooks=self._hooks,
            random=self._random,
            machine=self._machine,
            wall=self._wall,
            bind=bind,
            accept=accept,
            total=total,
            open_recorder=recorder,
        )
        return Run(jobs, options)


class Run:
    """A running batch. Enter it with ``async with``; leaving it early cancels what is left.

    A run needs a reader: results that nobody takes fill the window and hold the source back. Progress, statistics and
    controls may be used from any thread.
    """

    def __init__(self, jobs: Any, options: RunOptions) -> None:
        self._jobs = jobs
        self._options = options
        self._scheduler = Scheduler(options.policy)
        self._live: Engine | None = None
        self._is_read = False

    async def __aenter__(self) -> Self:
        if self._live is not None:
            raise UsageError("a run is entered once; start another with BatchExecutor.start")
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        recorder = None if self._options.open_recorder is None else await _open(self._options.open_recorder)
        self._live = Engine(self._scheduler, self._options, recorder)
        jobs = self._jobs if recorder is None else recorder.jobs
        self._loop.call_soon(self._live.open, jobs)  # not at once, so that ordered results can be asked for first
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is asyncio.CancelledError:
            self._engine.interrupt()
        else:
            self._engine.stop(StopReason.CANCELLED, cancelled("the run was left before its end"))
        await self._engine.close()

    @property
    def is_entered(self) -> bool:
        """Whether it has begun; it may be over."""
        return self._live is not None

    @property
    def id(self) -> str | None:
        """The id under which the run is recorded; None if it is not."""
        return self._engine.run_id

    @property
    def drain_s(self) -> float:
        """How long running attempts may take when the run is drained."""
        return self._options.policy.drain_s

    @property
    def stopped(self) -> StopReason | None:
        """Why the run ended early; None if it did not."""
        return self._engine.stopped

    @property
    def stopped_because(self) -> str:
        """The reason in words, such as what was unavailable for too long; empty if the run did not end early."""
        return self._engine.stopped_because

    def results(self, *, ordered: bool = False) -> AsyncIterator[Result]:
        """Read the results, each once: as completed, or in input order.

        In input order a slow first item holds back all results after it, and, once the window is full, the source.
        A source that failed raises SourceError here, after every result of what came before.
        """
        live = self._engine
        if self._is_read:
            raise UsageError("the results of this run are already being read; read them in one place")
        self._is_read = True
        if ordered:
            live.order()
        return self._read(live)

    async def wait(self) -> Statistics:
        """Read and discard all results; for a run whose results go elsewhere."""
        async for _ in self.results():
            pass
        return self.statistics()

    async def take(self) -> list[Result]:
        """Return all results that are ready, at least one, or none at the run's end. Pass each to ``release``."""
        return await self._engine.take()

    def release(self, result: Result) -> None:
        """Free a taken result's place in the window."""
        self._engine.release(result)

    def call_in_thread(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call a plain function, such as a sink's write, in a thread of the run."""
        return self._engine.call_in_thread(function)

    def progress(self) -> Progress:
        """Return the run's progress."""
        return self._on_loop(self._engine.progress)

    def statistics(self) -> Statistics:
        """Return the figures so far."""
        return self._on_loop(self._engine.statistics)

    def status(self, job_id: str) -> Status | None:
        """Return the status of a job in the window; None for one not yet admitted, or whose result was taken."""
        job = self._scheduler.find(job_id)
        return None if job is None else job.status

    def set_concurrency(self, concurrency: int, *, adaptive: bool | None = None) -> bool:
        """Change how many attempts may run at once. Return whether the run was not over.

        With ``adaptive`` the limits of all keys are found below it, with False each is that number, with None as
        before.
        """
        if adaptive is not None and type(adaptive) is not bool:
            raise UsageError(f"adaptive must be True, False or None, got {adaptive!r:.80}")
        return self._on_loop(lambda: self._engine.set_limit(concurrency, adaptive))

    def pause(self) -> bool:
        """Start nothing new until ``unpause``; running attempts continue. Return whether that changed anything."""
        return self._on_loop(self._engine.pause)

    def unpause(self) -> bool:
        """Continue after ``pause``; return whether the run was paused."""
        return self._on_loop(self._engine.unpause)

    def drain(self, within_s: float | None = None, *, because: str = "") -> bool:
        """End the run gently: start nothing more, let running attempts end within this time (``drain_s``).

        Unfinished items stay pending. Called again it restarts the time; 0 ends running attempts now, with at most half
        a second of grace. ``because`` names who asks, such as a signal. Return whether there was anything to end.
        """
        seconds = self.drain_s if within_s is None else within_s
        require_seconds("within_s", seconds)
        message = f"stopped by {because} before it was done" if because else "stopped before it was done"
        return self._on_loop(lambda: self._engine.drain(StopReason.REQUEST, message, within_s=seconds))

    def cancel(self, job_id: str | None = None) -> bool:
        """Cancel one job, or the whole run; return whether there was something to cancel."""
        if job_id is None:
            return self._on_loop(self._engine.cancel)
        return self._on_loop(lambda: self._engine.cancel_job(job_id))

    def interrupt(self) -> bool:
        """End the run because its task was cancelled, as by Ctrl-C: a recorded one is paused and can be resumed."""
        return self._on_loop(self._engine.interrupt)

    @property
    def _engine(self) -> Engine:
        if self._live is None:
            raise UsageError("enter the run first: `async with executor.start(jobs) as run:`")
        return self._live

    async def _read(self, live: Engine) -> AsyncIterator[Result]:
        while taken := await live.take():
            for result in taken:
                yield result
                live.release(result)

    def _on_loop(self, question: Callable[[], T]) -> T:
        """Call a function on the loop's thread: plain hooks, which run in other threads, may use the run too."""
        if get_ident() == self._thread or not self._loop.is_running():
            return question()
        answer: Future[T] = Future()
        try:
            self._loop.call_soon_threadsafe(_answer_on_loop, question, answer)
        except RuntimeError:  # closed since we looked
            return question()
        for _ in range(round(_MAX_ANSWER_S / _LOOK_S)):
            if wait([answer], timeout=_LOOK_S).done:
                break
            if not self._loop.is_running() and answer.cancel():  # it has ended and won't answer
                return question()
        return answer.result(timeout=0)


def _answer_on_loop(question: Callable[[], T], answer: Future[T]) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    try:
        answer.set_result(question())
    except Exception as error:  # noqa: BLE001  raised where it was asked
        answer.set_exception(error)


async def _open(recorder: Callable[[], Recorder]) -> Recorder:
    """Open the recorder in a thread; if this is cancelled meanwhile, abandon it."""
    opening = asyncio.get_running_loop().run_in_executor(None, recorder)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_abandon_recorder)
        await asyncio.wait([opening], timeout=_MAX_OPEN_S)  # not forever: the store may be busy
        raise


def _abandon_recorder(opening: asyncio.Future[Recorder]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().abandon()
