"""A lease: the part of an allowance that one run holds."""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil, inf
from typing import Any

from graphmill.core.errors import message_of
from graphmill.engine.allowance import SLICE_S, Allowances, Grant, Return, Wish
from graphmill.engine.pace import CATCH_UP_S, Limits, Pace, Reservation

Clock = Callable[[], float]
Submit = Callable[[Callable[[], Any]], Future[Any]]
log = logging.getLogger("graphmill")

_ASK_AGAIN_S = 10.0
_ANSWERS = 4  # a slice lasts longer than this many answers of the store take, or it would be over before it came


class Lease:
    """The slices of one account that one run takes, one after the other, when it has something to start.

    A store that fails is left alone for a while: until then the run keeps to its own part of what is allowed.
    """

    def __init__(
        self, source: Allowances, limits: Limits, pace: Pace, *, holder: str, submit: Submit, clock: Clock
    ) -> None:
        self._source = source
        self._limits = limits
        self._pace = pace
        self._holder = holder
        self._submit = submit
        self._clock = clock
        self._has = Grant(requests=0, tokens=0)
        self._granted, self._granted_at = 0.0, -inf
        self._until = -inf
        self._ask_at = -inf
        self._asking: Future[Grant] | None = None
        self._returns: list[Return] = []
        self._sharers = 1
        self._took_s = 0.0  # by the store, for its last answer
        self._own: Pace | None = None

    def opens_at(self, now: float, weight: int, woken: Callable[[], None]) -> float | None:
        """Tell when a start may be made; None while the store is asked: ``woken`` is called when it has answered."""
        if not self._pace.request_s and not self._pace.token_s:
            return 0.0
        if self._own is None and self._is_enough(now, weight):
            return 0.0
        if self._asking is None and now >= self._ask_at:
            self._ask(now, weight, woken)
        if self._own is not None:
            return self._own.opens_at(weight)
        return None if self._asking is not None else self._ask_at

    def wait_s(self, now: float, weight: int) -> float | None:
        """Tell how long a start has to wait; None while the store is asked, or is about to be."""
        if self._own is not None:
            return max(0.0, self._own.opens_at(weight) - now)
        if not (self._pace.request_s or self._pace.token_s) or self._is_enough(now, weight):
            return 0.0
        return self._ask_at - now if self._asking is None and self._ask_at > now else None

    def started(self, now: float, reserved: Reservation) -> None:
        """Note a start."""
        if self._own is not None:
            reserved.beside = self._own.started(now, reserved.tokens)
        elif now < self._until:
            self._has = self._has._replace(requests=self._has.requests - 1, tokens=self._has.tokens - reserved.tokens)
            reserved.slice = self._has.slice

    def settled(self, reserved: Reservation, used: int) -> None:
        """Note what becomes of the tokens that are reserved."""
        if reserved.beside is not None and self._own is not None:
            self._own.settled(reserved.beside, used)
        if reserved.slice and used != reserved.tokens:
            self._returns.append(Return(reserved.slice, tokens=reserved.tokens - used))

    def returned(self, reserved: Reservation) -> None:
        """Take back what was not used at all, for as long as its slice lasts; later only its tokens."""
        if reserved.beside is not None and self._own is not None:
            self._own.returned(reserved.beside)
        elif reserved.slice and reserved.slice == self._has.slice:
            self._has = self._has._replace(requests=self._has.requests + 1, tokens=self._has.tokens + reserved.tokens)
        elif reserved.slice:
            self._returns.append(Return(reserved.slice, tokens=reserved.tokens))

    def close(self) -> Callable[[], None] | None:
        """Give what is left back: what is to be called for it, in a thread; None if there is nothing."""
        self._drop()
        if not self._returns:
            return None
        wish, self._returns = self._wish(0), []
        return partial(self._source.give_back, wish)

    def _is_enough(self, now: float, weight: int) -> bool:
        return now < self._until and self._requests_left(now) >= 1 and self._has.tokens >= self._need(weight)

    def _requests_left(self, now: float) -> float:
        """Count the requests whose time has not passed: one that comes late would meet those of the next slice."""
        if self._has.requests == inf:
            return inf
        missed = (
            max(0, ceil((now - self._granted_at - CATCH_UP_S) / self._pace.request_s)) if self._pace.request_s else 0
        )
        return min(self._has.requests, self._granted - missed)

    def _need(self, weight: int) -> int:
        return min(weight, self._limits.tokens_per_minute or weight)

    def _wish(self, weight: int) -> Wish:
        return Wish(
            account=self._limits.account,
            holder=self._holder,
            request_s=self._pace.request_s,
            token_s=self._pace.token_s,
            tokens_per_minute=self._limits.tokens_per_minute,
            weight=self._need(weight),
            slice_s=max(SLICE_S, _ANSWERS * self._took_s),
            returns=tuple(self._returns),
        )

    def _drop(self) -> None:
        has, self._has = self._has, Grant(requests=0, tokens=0)
        if has.slice:
            requests, tokens = (0 if left == inf else max(0, int(left)) for left in (has.requests, has.tokens))
            self._returns.append(Return(has.slice, requests, tokens))

    def _ask(self, now: float, weight: int, woken: Callable[[], None]) -> None:
        self._drop()
        wish, self._returns = self._wish(weight), []
        try:
            asking = self._asking = self._submit(partial(self._source.take, wish))
        except RuntimeError as error:  # no more threads to be had
            self._fall_back(now, wish, error)
            return
        asking.add_done_callback(lambda done: self._answered(now, wish, done, woken))

    def _answered(self, asked_at: float, wish: Wish, asking: Future[Grant], woken: Callable[[], None]) -> None:
        self._asking, self._took_s = None, self._clock() - asked_at
        if asking.cancelled():
            return
        if (error := asking.exception()) is not None:
            self._fall_back(asked_at, wish, error)
        else:
            grant = asking.result()
            self._own, self._sharers = None, grant.sharers
            if grant.slice:
                self._has, self._granted, self._granted_at = grant, grant.requests, self._clock()
                self._until, self._ask_at = asked_at + grant.lasts_s, -inf
            else:
                self._ask_at = asked_at + grant.wait_s
        woken()

    def _fall_back(self, now: float, wish: Wish, error: BaseException) -> None:
        if self._own is None:
            log.warning(
                "limits are not shared for now, this run keeps to 1/%d of them: %s", self._sharers, message_of(error)
            )
            self._own = Pace(_part(self._limits, self._sharers))
        self._returns = list(wish.returns)
        self._ask_at = now + _ASK_AGAIN_S


def _part(limits: Limits, sharers: int) -> Limits:
    return replace(
        limits,
        requests_per_minute=None
        if limits.requests_per_minute is None
        else max(1, limits.requests_per_minute // sharers),
        tokens_per_minute=None if limits.tokens_per_minute is None else max(1, limits.tokens_per_minute // sharers),
    )
