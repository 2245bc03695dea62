"""A turnstile: lets the calls of one model through as it bears them, for calls that wait in the slot of the function they are made in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from graphmill.core.model_call import ModelRequest
from graphmill.core.usage import Usage
from graphmill.engine.pace import Limits, Pace
from graphmill.graph.models.question import CHARS_PER_TOKEN, USUAL_ANSWER
from graphmill.graph.models.target import Target
from graphmill.graph.node_type import Context


class Turnstile:
    """One for each model, shared by all calls of a run."""

    def __init__(self, limits: Limits) -> None:
        self._pace = Pace(limits)
        self._room = None if limits.concurrency is None else asyncio.Semaphore(limits.concurrency)
        self._turn = asyncio.Lock()
        self._settled = asyncio.Event()

    async def close(self) -> None:
        """Let go of nothing."""

    async def enter(self, tokens: int) -> None:
        """Wait until there is room, and until it is time."""
        if self._room is not None:
            await self._room.acquire()
        try:
            await self._wait(tokens)
        except BaseException:
            self._give_way()
            raise

    async def _wait(self, tokens: int) -> None:
        loop = asyncio.get_running_loop()
        async with self._turn:
            while (wait_s := self._pace.opens_at - loop.time()) > 0:
                self._settled.clear()
                with suppress(TimeoutError):  # others settle meanwhile, and it may be time sooner, or later
                    async with asyncio.timeout(wait_s):
                        await self._settled.wait()
            self._pace.started(loop.time(), tokens)

    def leave(self, reserved: int, used: Usage | None) -> None:
        """Let the next one in; what was not used is given back."""
        self._pace.settled(reserved, 0 if used is None else used.input_tokens + used.output_tokens)
        self._settled.set()
        self._give_way()

    def _give_way(self) -> None:
        if self._room is not None:
            self._room.release()


@asynccontextmanager
async def let_through(target: Target, request: ModelRequest, context: Context) -> AsyncIterator[None]:
    """Hold a call back until the limits of its model allow it, if it has any."""
    limits = target.setting.limits
    if limits is None:
        yield
        return
    turnstile = context.shared(("limits", target.lane), partial(Turnstile, limits))
    tokens = sum(len(message.text) for message in request.messages) // CHARS_PER_TOKEN + (request.max_tokens or USUAL_ANSWER)
    before = context.usage
    await turnstile.enter(tokens)
    try:
        yield
    finally:
        turnstile.leave(tokens, _since(before, context.usage))


def _since(before: Usage | None, now: Usage | None) -> Usage | None:
    if now is None or before is None:
        return now
    return Usage(input_tokens=now.input_tokens - before.input_tokens, output_tokens=now.output_tokens - before.output_tokens)
