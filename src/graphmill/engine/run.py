"""A live run: the handle a person holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from random import Random
from threading import get_ident
from typing import Any, Self, TypeVar

from graphmill.core.errors import UsageError
from graphmill.core.result import Result, Status, StopReason
from graphmill.engine.admission import Bind
from graphmill.engine.audience import Hooks
from graphmill.engine.conductor import Conductor
from graphmill.engine.failures import cancelled
from graphmill.engine.feed import known_length
from graphmill.engine.policy import Policy
from graphmill.engine.progress import Progress
from graphmill.engine.scheduler import Scheduler
from graphmill.engine.statistics import Statistics

T = TypeVar("T")
_ANSWER_S = 30.0


class Run:
    """A batch under way. Enter it with ``async with``; leaving it early cancels what is left.

    Progress needs a reader: results that nobody takes fill the window and hold the source back. Readings and controls may
    be used from any thread.
    """

    def __init__(self, jobs: Any, policy: Policy, hooks: Hooks, *, bind: Bind | None, total: int | None, random: Random) -> None:
        self._jobs = jobs
        self._policy = policy
        self._hooks = hooks
        self._bind = bind
        self._total = known_length(jobs) if total is None else total
        self._scheduler = Scheduler(policy, random)
        self._live: Conductor | None = None
        self._is_read = False

    async def __aenter__(self) -> Self:
        if self._live is not None:
            raise UsageError("a run is entered once; start another with BatchExecutor.start")
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        self._live = Conductor(self._scheduler, self._policy, self._hooks, bind=self._bind, total=self._total)
        self._loop.call_soon(self._live.open, self._jobs)  # not at once, so that ordered results can be asked for first
        return self

    async def __aexit__(self, *_: object) -> None:
        self._conductor.stop(StopReason.CANCELLED, "the run was left before its end")
        await self._conductor.close()

    @property
    def stopped(self) -> StopReason | None:
        """Why the run ended early; None if it did not."""
        return self._conductor.stopped

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

    def set_concurrency(self, concurrency: int) -> None:
        """Change how many attempts may run at once, from now on."""
        self._ask(lambda: self._conductor.set_limit(concurrency))

    def cancel(self, job_id: str | None = None) -> bool:
        """Cancel one job, or the whole run; tell whether there was something to cancel."""
        if job_id is None:
            return self._ask(lambda: self._conductor.stop(StopReason.CANCELLED, "the run was cancelled"))
        return self._ask(lambda: self._cancel_job(job_id))

    @property
    def _conductor(self) -> Conductor:
        if self._live is None:
            raise UsageError("enter the run first: `async with executor.start(jobs) as run:`")
        return self._live

    def _cancel_job(self, job_id: str) -> bool:
        ticket = self._scheduler.find(job_id)
        if ticket is None or ticket.status.is_final:
            return False
        self._conductor.end(ticket, cancelled("the job was cancelled"))
        return True

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
        self._loop.call_soon_threadsafe(_answer, question, answer)
        return answer.result(timeout=_ANSWER_S)


def _answer(question: Callable[[], T], answer: Future[T]) -> None:
    try:
        answer.set_result(question())
    except Exception as error:  # noqa: BLE001  raised where it was asked
        answer.set_exception(error)
