"""Daemon threads for plain functions, and the mailbox through which threads reach the loop.

Daemon, because a thread can't be stopped: a stuck one must not prevent the interpreter's exit.
"""

from __future__ import annotations

import asyncio
import math
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any

Ended = Callable[[Any, BaseException | None], None]


class Mailbox:
    """Messages of other threads for the loop: many messages, one wake-up."""

    def __init__(self, loop: AbstractEventLoop, receive: Callable[[Any], None]) -> None:
        self._loop = loop
        self._receive = receive
        self._messages: deque[Any] = deque()
        self._is_woken = False

    def post(self, message: Any) -> None:
        """Post a message from any thread; it is lost if the loop is gone."""
        self._messages.append(message)
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self.empty)
            except RuntimeError:
                self._messages.clear()

    def empty(self) -> None:
        """Receive all messages; on the loop."""
        self._is_woken = False  # first: what is posted from here on wakes the loop again
        try:
            while self._messages:
                self._receive(self._messages.popleft())
        finally:
            if self._messages:  # one that could not be received must not hold back the others
                self._loop.call_soon(self.empty)


class ThreadCall:
    """One call in a thread; ``ended`` gets its value or error unless it was abandoned before."""

    __slots__ = ("ended", "function", "is_abandoned", "is_over")

    def __init__(self, function: Callable[[], Any], ended: Ended) -> None:
        self.function = function
        self.ended = ended
        self.is_abandoned = False
        self.is_over = False


class Threads:
    """As many daemon threads as there are calls at once, or at most ``most``; they end when closed."""

    def __init__(self, loop: AbstractEventLoop, name: str, *, most: float = math.inf) -> None:
        self._name = name
        self._most = most
        self._is_idle = asyncio.Event()
        self._calls: SimpleQueue[ThreadCall | None] = SimpleQueue()
        self._mailbox = Mailbox(loop, self._end)
        self._threads: list[Thread] = []
        self._busy = 0
        self.stuck = 0

    def submit(self, function: Callable[[], Any], ended: Ended) -> ThreadCall:
        """Call a function in a thread; ``ended`` gets its value or error on the loop."""
        call = ThreadCall(function, ended)
        self._busy += 1
        self._is_idle.clear()
        if len(self._threads) < min(self._busy, self._most):
            self._grow()
        self._calls.put(call)
        return call

    def _grow(self) -> None:
        thread = Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # out of threads: use those there are
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def abandon(self, call: ThreadCall) -> bool:
        """Stop waiting for a call; its thread is stuck until it returns. Return whether the call was running."""
        if call.is_over or call.is_abandoned:
            return False
        call.is_abandoned = True
        self.stuck += 1
        return True

    def dismiss(self) -> None:
        """End the threads once they have done what was submitted; a stuck one ends when its function returns."""
        for _ in self._threads:
            self._calls.put(None)

    async def wait_gone(self, grace_s: float) -> None:
        """Wait for dismissed threads, at most this long for running calls."""
        if self._busy > self.stuck:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._is_idle.wait()
        if not self._busy:
            self.join()

    def join(self) -> None:
        """Join dismissed threads that have nothing left to do."""
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                value, error = None if call.is_abandoned else call.function(), None
            except BaseException as raised:  # noqa: BLE001  whatever user code raises is the outcome
                value, error = None, raised
            self._mailbox.post((call, value, error))
            del call, value, error  # an idle thread keeps nothing alive

    def _end(self, message: tuple[ThreadCall, Any, BaseException | None]) -> None:
        call, value, error = message
        call.is_over = True
        self._busy -= 1
        ended = call.ended
        call.function = call.ended = _nothing  # they may keep the call alive, and everything it was for
        if call.is_abandoned:
            self.stuck -= 1
        else:
            ended(value, error)
        if self._busy == self.stuck:
            self._is_idle.set()


def _nothing(*_: Any) -> None:
    """Do nothing."""
