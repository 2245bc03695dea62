"""The paces of a run's lanes: one for each account, which all runs of the process share, and all processes that share a store."""

from __future__ import annotations

import asyncio
import time
from asyncio import Future
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock
from uuid import uuid4

from graphmill.core.rate_limits import RateLimits
from graphmill.engine.allowance import Allowances, Learned
from graphmill.engine.lease import Clock, Lease, Submit
from graphmill.engine.pace import Limits, Pace, Reservation

_SAME_CLOCK_S = 1.0
_CLOSE_S = 2.0
_LEAST_CLOSED_S = 1.0  # a wait that is worth telling others


class LanePace:
    """The pace of one lane: what its process may start, and, where others share it, the slice that its run holds."""

    __slots__ = ("_begun", "_lease", "_note", "_noted", "_pace", "_woken", "account")

    def __init__(
        self,
        pace: Pace,
        account: str,
        lease: Lease | None,
        *,
        note: Callable[[Learned], None],
        woken: Callable[[], None],
    ) -> None:
        self.account = account
        self._pace = pace
        self._lease = lease
        self._note = note
        self._woken = woken
        self._begun: set[Reservation] = set()
        self._noted: tuple[int | None, int | None] = (None, None)

    @property
    def counts_tokens(self) -> bool:
        """Whether anybody asks how many tokens an attempt may take."""
        return self._pace.counts_tokens

    def opens_at(self, now: float, weight: int) -> float | None:
        """Tell from when on the next may start, if it takes so many tokens; None while others are asked."""
        at = self._pace.opens_at(weight)
        if self._lease is None or at > now:  # a slice is not asked for before it can be used
            return at
        return self._lease.opens_at(now, weight, self._woken)

    def wait_s(self, now: float, weight: int) -> float | None:
        """Tell how long the next has to wait, if it takes so many tokens; None while others are asked. It asks nobody."""
        at = self._pace.opens_at(weight)
        if self._lease is None or at > now:
            return max(0.0, at - now)
        return self._lease.wait_s(now, weight)

    def limit_for(self, weight: int) -> str:
        """Name the limit for which it has to wait."""
        return self._pace.limit_for(weight)

    def started(self, now: float, tokens: int) -> Reservation:
        """Note a start, and how many tokens it may take."""
        reserved = self._pace.started(now, tokens)
        self._begun.add(reserved)
        if self._lease is not None:
            self._lease.started(now, reserved)
        return reserved

    def settled(self, reserved: Reservation, used: int) -> None:
        """Take back what an attempt has not used of its tokens, or add what it has used beyond."""
        self._begun.discard(reserved)
        if self._lease is not None:
            self._lease.settled(reserved, used)
        self._pace.settled(reserved, used)  # last: from then on its tokens are those that were used

    def returned(self, reserved: Reservation) -> None:
        """Take back all of an attempt that has asked for nothing."""
        self._begun.discard(reserved)
        if self._lease is not None:
            self._lease.returned(reserved)
        self._pace.returned(reserved)

    def close(self) -> None:
        """Settle what a run has left behind as it was reserved."""
        for reserved in list(self._begun):
            self.settled(reserved, reserved.tokens)

    def learn(self, told: RateLimits, now: float, reserved: Reservation | None) -> None:
        """Take the other side's word for what it allows; what is new is kept for others too."""
        self._pace.learn(told, now, reserved)
        learned, closed_s = self._pace.learned, self._pace.closed_until - now
        if learned != self._noted or closed_s > _LEAST_CLOSED_S:
            self._noted = learned
            self._note(Learned(self.account, *learned, max(0.0, closed_s)))


class Paces:
    """Gives the pace of an account; made once for each run.

    ``shared`` is what its store lets processes share, ``submit`` calls something in a thread, ``woken`` is called when a lane may open.
    """

    def __init__(self, shared: Allowances | None, *, clock: Clock, submit: Submit, woken: Callable[[], None]) -> None:
        self._shared = shared
        self._clock = clock
        self._submit = submit
        self._woken = woken
        self._holder = uuid4().hex
        self._made: list[LanePace] = []
        self._leases: list[Lease] = []
        self._telling: set[Future[object]] = set()

    def of(self, limits: Limits) -> LanePace:
        """Give the pace of an account, kept to these limits."""
        pace, lease = process_pace(limits, self._clock), None
        if self._shared is not None and limits.account:
            lease = Lease(self._shared, limits, pace, holder=self._holder, submit=self._submit, clock=self._clock)
            self._leases.append(lease)
        made = LanePace(pace, limits.account, lease, note=self._note, woken=self._woken)
        self._made.append(made)
        return made

    async def close(self) -> None:
        """Tell what is not told yet, and give back what is held and was not used, soon or not at all."""
        for pace in self._made:
            pace.close()
        if self._telling:
            await asyncio.wait(self._telling, timeout=_CLOSE_S)
        for lease in self._leases:
            if (returned := lease.close()) is not None:
                with suppress(Exception):  # what is not given back comes back by itself
                    async with asyncio.timeout(_CLOSE_S):
                        await asyncio.get_running_loop().run_in_executor(None, returned)

    def _note(self, learned: Learned) -> None:
        if self._shared is not None and learned.account:
            with suppress(RuntimeError):  # no more threads to be had
                telling = self._submit(partial(self._shared.note, learned))
                self._telling.add(telling)
                telling.add_done_callback(self._told)

    def _told(self, telling: Future[object]) -> None:
        """Let what was learned be lost where it can not be kept: the next answer tells it again."""
        self._telling.discard(telling)
        if not telling.cancelled():
            telling.exception()


def process_pace(limits: Limits, clock: Clock) -> Pace:
    """Give the pace that all runs of this process keep to together; a clock of its own, as in a rehearsal, has paces of its own."""
    if not limits.account or abs(clock() - time.monotonic()) > _SAME_CLOCK_S:
        return Pace(limits)
    with _lock:
        pace = _paces.get(limits.account)
        if pace is None:
            pace = _paces[limits.account] = Pace(limits)
        else:
            pace.set(limits)
        return pace


_paces: dict[str, Pace] = {}
_lock = Lock()
