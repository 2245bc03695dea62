"""Starts: what is ready begins, when the right one is the first, and a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from graphmill.engine.acting import acting
from graphmill.engine.audience import Audience
from graphmill.engine.delivery import Delivery
from graphmill.engine.scheduler import Scheduler
from graphmill.engine.subscriber import BREATH_S
from graphmill.engine.ticket import Ticket

_MOST_AT_ONCE = (
    20  # no turn of the loop is long, and what a burst has made is gone before a garbage collector looks at it
)


class Starts:
    """Lets begin what the scheduler gives a slot, once it is opened.

    ``is_quiet`` is set when nothing runs, and by others when that is to be looked at; ``crash`` is called with a fault of ours.
    """

    def __init__(
        self, scheduler: Scheduler, audience: Audience, delivery: Delivery, *, crash: Callable[[BaseException], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._scheduler = scheduler
        self._audience = audience
        self._delivery = delivery
        self.crash = crash
        self._starting: asyncio.Handle | None = None
        self._opening: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.is_quiet = asyncio.Event()

    def open(self, *, begin: Callable[[Ticket, float], None], refill: Callable[[], None]) -> None:
        """Take what begins a ticket, and what asks for more where there is room."""
        self._begin = begin
        self._refill = refill

    def soon(self) -> None:
        """Start what is ready in the next turn of the loop: when the present burst is in, so that the first is the right one."""
        if self._starting is None and not self._is_closed:
            self._starting = self._loop.call_soon(self._start)

    def at_once(self) -> None:
        """Start what is ready now, since nothing more comes in this turn: where few run at once every turn counts."""
        if self._starting is None and not self._is_closed:
            self._start()

    def idle(self) -> None:
        """Let what is next begin at once, since there is no burst to wait for; if nothing may, it waits for what is to be written."""
        if not self._scheduler.has_slot:
            self._delivery.flush()
        elif not self._is_closed:
            if self._starting is not None:
                self._starting.cancel()  # else each turn from now on would start twice as many
            self._start()

    def close(self) -> None:
        """Start nothing more."""
        self._is_closed = True
        for call in (self._starting, self._opening):
            if call is not None:
                call.cancel()

    @acting
    def _start(self) -> None:
        if not self._scheduler.running:
            self.is_quiet.set()
        if self._audience.has_observers and self._audience.take_breath():
            self._come_back(self._loop.time() + BREATH_S, self._start)
            return
        self._starting = None
        now = self._loop.time()
        for _ in range(_MOST_AT_ONCE):
            ticket = self._scheduler.start_next(now)
            if ticket is None:
                self._come_back(self._scheduler.opens_at(now), self.soon)
                break
            self._begin(ticket, now)
        else:
            self.soon()
        self._refill()

    def _come_back(self, at: float | None, then: Callable[[], None]) -> None:
        """Look again when a lane opens that is closed for some time, or a breath was taken."""
        if self._opening is not None:
            self._opening.cancel()
        self._opening = None if at is None else self._loop.call_at(at, then)
