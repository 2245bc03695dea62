"""From a job's end to whoever waits for it: written down first, where there is a journal, and only then counted, told and handed out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from graphmill.core.job import Effect, Job
from graphmill.core.result import Result
from graphmill.engine.acting import acting
from graphmill.engine.recorder import GATHER_S, Recorder
from graphmill.engine.scheduler import Scheduler
from graphmill.engine.ticket import Ticket

SHOW_S = 0.001  # where few run at once, what comes next goes before what is durable: several commits are shown together


class Delivery:
    """Results on their way out. ``show(job, result)`` is called with each when it may be seen, ``crash`` with a fault of ours."""

    def __init__(
        self,
        scheduler: Scheduler,
        recorder: Recorder | None,
        *,
        show: Callable[[Job, Result], None],
        crash: Callable[[BaseException], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._scheduler = scheduler
        self._recorder = recorder
        self._show = show
        self.crash = crash
        self._is_flushing = False
        self._gathering: asyncio.TimerHandle | None = None
        self._showing: asyncio.TimerHandle | None = None
        self._settled: list[tuple[Ticket, Result]] = []  # to be written down
        self._unkept: list[tuple[Ticket, Result]] = []  # only to be shown
        self._durable: list[tuple[Ticket, Result]] = []
        self._uncommitted: deque[tuple[int, Callable[[], None] | None, list[tuple[Ticket, Result]]]] = (
            deque()
        )  # an act, or results
        self._is_committed = asyncio.Event()
        self.is_forgotten = False

    def settle(self, ticket: Ticket, result: Result, *, is_undone: bool) -> None:
        """Take a result; one that is undone is shown and not kept."""
        recorder = self._recorder
        if recorder is not None:
            recorder.leave(ticket.job)
            if is_undone and ticket.last_step is not None:
                recorder.step(ticket.job, *ticket.last_step)
        if recorder is None or is_undone:
            self._unkept.append((ticket, result))
        else:
            self._scheduler.note_written(ticket.job.effect)  # from now on it counts as uncommitted
            self._settled.append((ticket, result))
        if not self._is_flushing:
            self._flush_soon()

    def _flush_soon(self) -> None:
        """Let results go two turns late, when what takes the free slots is under way; or, if nobody waits for them, with others."""
        if self._recorder is None or self._scheduler.is_pressed:
            self._is_flushing = True
            self._loop.call_soon(self._loop.call_soon, self._flush)
        elif self._gathering is None:
            self._gathering = self._loop.call_later(GATHER_S, self._gathered)

    @acting
    def _gathered(self) -> None:
        self._gathering = None
        self.flush()

    @acting
    def _flush(self) -> None:
        self._is_flushing = False
        self.flush()

    def flush(self) -> None:
        """Write down, or show, what was taken."""
        settled, unkept, self._settled, self._unkept = self._settled, self._unkept, [], []
        if self.is_forgotten:
            return
        for ticket, result in unkept:
            self._show(ticket.job, result)
        if self._recorder is None or not (settled or unkept):
            return
        finish, number = self._recorder.finish, 0
        for ticket, result in settled:
            number = finish(ticket.job, result, ticket.body, ticket.last_step)
            ticket.body = ticket.last_step = None
        if settled:
            self._uncommitted.append((number, None, settled))
        self._recorder.hurry()

    def show_durable(self) -> None:
        """Show what is durable."""
        durable, self._durable = self._durable, []
        for ticket, result in durable:
            self._show(ticket.job, result)

    def after(self, number: int, act: Callable[[], None]) -> None:
        """Do something as soon as what has this number can be durable."""
        if not self.is_forgotten and self._recorder is not None:
            self._uncommitted.append((number, act, []))
            self._recorder.hurry()

    def count(self, number: int, effect: Effect) -> None:
        """Count what has this number as uncommitted until it is durable: it would be repeated after a crash."""
        if not self.is_forgotten:
            self._scheduler.note_written(effect)
            self._uncommitted.append((number, partial(self._scheduler.note_committed, [effect]), []))
            self._hurry_if_pressed()

    def _hurry_if_pressed(self) -> None:
        if self._recorder is not None and self._scheduler.is_pressed:
            self._recorder.hurry()

    def committed(self, number: int) -> None:
        """Do what waited for this, but show results later."""
        waiting, is_first = self._uncommitted, not self._durable
        while waiting and waiting[0][0] <= number:
            _, act, results = waiting.popleft()
            if act is not None:
                act()
            else:
                self._scheduler.note_committed([ticket.job.effect for ticket, _ in results])
                self._durable += results
        self._is_committed.set()
        if is_first and self._durable:
            self._showing = self._loop.call_later(SHOW_S, self._shown)

    @acting
    def _shown(self) -> None:
        self.show_durable()

    def forget(self) -> None:
        """Wait for nothing any more: what is not durable by now has not happened."""
        self.is_forgotten = True
        self._settled.clear()
        self._unkept.clear()
        self._uncommitted.clear()
        self._is_committed.set()

    async def wait_committed(self) -> None:
        """Wait until everything is durable and shown, or forgotten."""
        if self._recorder is not None:
            self._recorder.hurry()
        while self._uncommitted:
            self._is_committed.clear()
            await self._is_committed.wait()

    def close(self) -> None:
        """Leave no timer behind."""
        for timer in (self._gathering, self._showing):
            if timer is not None:
                timer.cancel()
