"""A live run: the handle a person holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any, Self

from graphmill.core.errors import UsageError
from graphmill.core.result import Result, Status
from graphmill.engine import events
from graphmill.engine.admission import Bind
from graphmill.engine.audience import Hooks
from graphmill.engine.conductor import Conductor, cancelled
from graphmill.engine.feed import known_length
from graphmill.engine.policy import Policy
from graphmill.engine.progress import Progress, RateMeter
from graphmill.engine.scheduler import Scheduler
from graphmill.engine.statistics import Statistics

PROGRESS_EVERY_S = 0.5


class Run:
    """A batch under way. Enter it with ``async with``; leaving it early cancels what is left.

    Progress needs a reader: results that nobody takes fill the window and hold the source back.
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
        self._ended_at: float | None = None

    async def __aenter__(self) -> Self:
        if self._live is not None:
            raise UsageError("a run is entered once; start another with BatchExecutor.start")
        self._loop = asyncio.get_running_loop()
        self._started_at = self._loop.time()
        self._meter = RateMeter(self._started_at)
        live = self._live = Conductor(self._scheduler, self._policy, self._hooks, bind=self._bind, expected=self._total)
        live.audience.tell(events.RunStarted, concurrency=self._scheduler.limit, total=self._total)
        self._tick()
        self._loop.call_soon(live.open, self._jobs)  # not at once, so that ordered results can be asked for first
        return self

    async def __aexit__(self, *_: object) -> None:
        live = self._conductor
        live.stop("cancelled", "the run was left before its end")
        try:
            await live.wait_quiet()
            self._ended_at = self._ended_at or self._loop.time()
            live.audience.tell_progress(self.progress)
            live.audience.tell(events.RunFinished, statistics=self.statistics())
            await live.audience.drain()
        finally:
            self._ticker.cancel()
            await live.close()

    @property
    def stopped(self) -> str | None:
        """Why the run ended early: fail_fast, max_failures, cancelled, deadline, stuck; None if it did not."""
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
            if live.admission.is_reordered:
                raise UsageError("ask for ordered results before the run has started: its list was already ordered by priority")
            live.outbox.order()
        return self._read()

    async def wait(self) -> Statistics:
        """Read and forget all results; for a run whose results go elsewhere."""
        async for _ in self.results():
            pass
        return self.statistics()

    async def take(self) -> list[Result]:
        """Take all results that are there, at least one, or none at the run's end. Give each back to ``release``."""
        live = self._conductor
        while not (taken := live.outbox.take()):
            if live.is_over():
                self._ended_at = self._ended_at or self._loop.time()
                if live.error is not None:
                    raise live.error
                break
            live.arrived.clear()
            await live.arrived.wait()
        return taken

    def release(self, result: Result) -> None:
        """Free a taken result's place in the window."""
        self._scheduler.release(result.job_id)
        self._conductor.admission.refill()

    def call_in_thread(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call a plain function, such as a sink's write, in a thread of the run."""
        return self._conductor.workers.submit(function)

    def progress(self) -> Progress:
        """Read how far the run is."""
        live, scheduler, now = self._conductor, self._scheduler, self._now()
        done, by_status = live.tally.total, live.tally.by_status
        rate = self._meter.rate(now, done)
        left = None if live.expected is None else max(0, live.expected - done)
        return Progress(
            total=live.expected,
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
        live = self._conductor
        return live.tally.statistics(expected=live.expected, elapsed_s=self._now() - self._started_at, stuck=live.workers.stuck)

    def status(self, job_id: str) -> Status | None:
        """Tell where one job of the window stands; None for one not yet admitted, or whose result was taken."""
        ticket = self._scheduler.find(job_id)
        return None if ticket is None else ticket.status

    def set_concurrency(self, concurrency: int) -> None:
        """Change how many attempts may run at once, from now on."""
        live, before = self._conductor, self._scheduler.limit
        self._scheduler.set_limit(concurrency)
        live.audience.tell(events.ConcurrencyChanged, before=before, after=concurrency)
        live.admission.refill()
        live.start_soon()

    def cancel(self, job_id: str | None = None) -> bool:
        """Cancel one job, or the whole run; tell whether there was something to cancel."""
        live = self._conductor
        if job_id is None:
            return live.stop("cancelled", "the run was cancelled")
        ticket = self._scheduler.find(job_id)
        if ticket is None or ticket.status.is_final:
            return False
        live.end(ticket, cancelled("the job was cancelled"))
        return True

    @property
    def _conductor(self) -> Conductor:
        if self._live is None:
            raise UsageError("enter the run first: `async with executor.start(jobs) as run:`")
        return self._live

    async def _read(self) -> AsyncIterator[Result]:
        while taken := await self.take():
            for result in taken:
                yield result
                self.release(result)

    def _tick(self) -> None:
        live = self._conductor
        self._meter.read(self._loop.time(), live.tally.total)
        live.audience.tell_progress(self.progress)
        self._ticker = self._loop.call_later(PROGRESS_EVERY_S, self._tick)

    def _now(self) -> float:
        return self._loop.time() if self._ended_at is None else self._ended_at
