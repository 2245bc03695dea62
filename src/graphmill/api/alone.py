"""The surroundings of a call that belongs to no run: nothing is recorded, and nothing tried again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Self

from graphmill.engine.rate_limits import Limits, RateLimiter, Reservation
from graphmill.engine.shared import C, Shared
from graphmill.graph.node_type import Context

_CLOSE_S = 5.0


class Turn:
    """A call that is under way; ``used`` are its tokens, as they were reserved until more is known, or None if nobody was asked."""

    def __init__(self, reserved: Reservation) -> None:
        self.reserved = reserved
        self.used: int | None = reserved.tokens


class Alone(Context):
    """What calls share while it is entered is closed when it is left."""

    __slots__ = ("_limiter", "_shared")

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._shared = Shared()
        self._limiter: RateLimiter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._shared.close(_CLOSE_S)

    def shared(self, key: Hashable, make: Callable[[], C]) -> C:
        """Give what goes by this key, made now if nobody asked for it before."""
        return self._shared.get(key, make)

    @asynccontextmanager
    async def turn(self, limits: Limits, weight: int) -> AsyncIterator[Turn]:
        """Wait until the limits allow a call of so many tokens, beside all others of this process."""
        self._limiter = RateLimiter.for_account(limits, asyncio.get_running_loop().time)
        turn = Turn(await self._reserved(self._limiter, weight))
        try:
            yield turn
        finally:
            if turn.used is None:
                self._limiter.cancel(turn.reserved)
            else:
                self._limiter.settle(turn.reserved, turn.used)

    async def again(self, weight: int) -> None:
        """Wait until one more call is allowed."""
        if self._limiter is not None:
            reserved = await self._reserved(self._limiter, weight)
            self._limiter.settle(reserved, reserved.tokens)

    @staticmethod
    async def _reserved(limiter: RateLimiter, weight: int) -> Reservation:
        clock = asyncio.get_running_loop().time
        while (wait_s := limiter.opens_at(weight) - clock()) > 0:  # noqa: ASYNC110  others move that time
            await asyncio.sleep(wait_s)
        return limiter.reserve(clock(), weight)
