"""A live run: the handle a person holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, wait
from threading import get_ident
from typing import Any, Self, TypeVar

from graphmill.core.errors import UsageError
from graphmill.core.result import Result, Status, StopReason
from graphmill.engine.conductor import Conductor
from graphmill.engine.failures import cancelled
from graphmill.engine.policy import require_seconds
from graphmill.engine.progress import Progress
from graphmill.engine.recorder import Recorder
from graphmill.engine.scheduler import Scheduler
from graphmill.engine.statistics import Statistics
from graphmill.engine.terms import Terms

T = TypeVar("T")
_ANSWER_S = 30.0
_LOOK_S = 0.05
_OPENED_WITHIN_S = 2.0


class Run:
    """A batch under way. Enter it with ``async with``; leaving it early cancels what is left.

    Progress needs a reader: results that nobody takes fill the window and hold the source back. Readings and controls may
    be used from any thread.
    """

    def __init__(self, jobs: Any, terms: Terms) -> None:
        self._jobs = jobs
        self._terms = terms
        self._scheduler = Scheduler(terms.policy, terms.random)
        self._live: Conductor | None = None
        self._is_read = False

    async def __aenter__(self) -> Self:
        if self._live is not None:
            raise UsageError("a run is entered once; start another with BatchExecutor.start")
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        recorder = None if self._terms.recorder is None else await _opened(self._terms.recorder)
        self._live = Conductor(self._scheduler, self._terms, recorder)
        jobs = self._jobs if recorder is None else recorder.jobs
        self._loop.call_soon(self._live.open, jobs)  # not at once, so that ordered results can be asked for first
        return self

    async def __aexit__(self, *_: object) -> None:
        self._conductor.stop(StopReason.CANCELLED, cancelled("the run was left before its end"))
        await self._conductor.close()

    @property
    def id(self) -> str | None:
        """Under which id it is recorded; None if it is not."""
        return self._conductor.run_id

    @property
    def drain_s(self) -> float:
        """How long what runs may go on when the run is drained."""
        return self._terms.policy.drain_s

    @property
    def stopped(self) -> StopReason | None:
        """Why the run ended early; None if it did not."""
        return self._conductor.stopped

    @property
    def stopped_because(self) -> str:
        """The reason in words, such as what was unavailable for too long; empty if the run did not end early."""
        return self._conductor.stopped_because

    def results(self, *, ordered: bool = False) -> AsyncIterator[Result]:
        """Read the results, each once: as completed, or in input order.

        In input order a slow first item holds back all results after it, and, once the window is full, the source.
        A source that failed raises SourceError here, after every result of what came before.
        """
        live = self._conductor
        if self._is_read:
            raise UsageError("the results of this run are already being read; read them in one place")
        self._is_read = True
        if ordered:
            live.order()
        return self._read(live)

    async def wait(self) -> Statistics:
        """Read and forget all results; for a run whose results go elsewhere."""
        async for _ in self.results():
            pass
        return self.statistics()

    async def take(self) -> list[Result]:
        """Take all results that are there, at least one, or none at the run's end. Give each back to ``release``."""
        return await self._conductor.take()

    def release(self, result: Result) -> None:
        """Free a taken result's place in the window."""
        self._conductor.release(result)

    def call_in_thread(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call a plain function, such as a sink's write, in a thread of the run."""
        return self._conductor.call_in_thread(function)

    def progress(self) -> Progress:
        """Read how far the run is."""
        return self._ask(self._conductor.progress)

    def statistics(self) -> Statistics:
        """Read the figures so far."""
        return self._ask(self._conductor.statistics)

    def status(self, job_id: str) -> Status | None:
        """Tell where one job of the window stands; None for one not yet admitted, or whose result was taken."""
        ticket = self._scheduler.find(job_id)
        return None if ticket is None else ticket.status

    def set_concurrency(self, concurrency: int) -> bool:
        """Change how many attempts may run at once, from now on; where it adapted, it does so no more. Tell whether the run still lives."""
        return self._ask(lambda: self._conductor.set_limit(concurrency))

    def pause(self) -> bool:
        """Start nothing new until ``unpause``; what runs goes on. Tell whether the run was not paused before."""
        return self._ask(self._conductor.pause)

    def unpause(self) -> bool:
        """Go on after ``pause``; tell whether the run was paused."""
        return self._ask(self._conductor.unpause)

    def drain(self, within_s: float | None = None, *, because: str = "") -> bool:
        """End the run gently: start nothing more, let what runs end by itself within this time (the policy's ``drain_s``).

        What was not finished is given as paused. Called again it sets the time anew; 0 ends what runs now, with a grace of
        half a second at most. ``because`` names who asks, such as a signal. Tell whether there was something to end.
        """
        seconds = self.drain_s if within_s is None else within_s
        require_seconds("within_s", seconds)
        message = f"stopped by {because} before it was done" if because else "stopped before it was done"
        return self._ask(lambda: self._conductor.drain(StopReason.DRAINED, message, within_s=seconds))

    def cancel(self, job_id: str | None = None) -> bool:
        """Cancel one job, or the whole run; tell whether there was something to cancel."""
        if job_id is None:
            return self._ask(self._conductor.cancel)
        return self._ask(lambda: self._conductor.cancel_job(job_id))

    @property
    def _conductor(self) -> Conductor:
        if self._live is None:
            raise UsageError("enter the run first: `async with executor.start(jobs) as run:`")
        return self._live

    async def _read(self, live: Conductor) -> AsyncIterator[Result]:
        while taken := await live.take():
            for result in taken:
                yield result
                live.release(result)

    def _ask(self, question: Callable[[], T]) -> T:
        """Ask on the loop's thread: plain callbacks, which run in threads of their own, may ask too."""
        if get_ident() == self._thread or not self._loop.is_running():
            return question()
        answer: Future[T] = Future()
        try:
            self._loop.call_soon_threadsafe(_answer, question, answer)
        except RuntimeError:  # closed since we looked
            return question()
        for _ in range(round(_ANSWER_S / _LOOK_S)):
            if wait([answer], timeout=_LOOK_S).done:
                break
            if not self._loop.is_running() and answer.cancel():  # it has ended, and answers no more
                return question()
        return answer.result(timeout=0)


def _answer(question: Callable[[], T], answer: Future[T]) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    try:
        answer.set_result(question())
    except Exception as error:  # noqa: BLE001  raised where it was asked
        answer.set_exception(error)


async def _opened(recorder: Callable[[], Recorder]) -> Recorder:
    """Take hold of a run in a thread; if nobody wants it any more when that is done, let it go."""
    opening = asyncio.get_running_loop().run_in_executor(None, recorder)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_let_go)
        await asyncio.wait([opening], timeout=_OPENED_WITHIN_S)  # not for ever: the store may be busy
        raise


def _let_go(opening: asyncio.Future[Recorder]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().abandon()
