"""Calls under way: who asks for what somebody is asking for already waits for that answer instead."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Awaitable, Callable
from threading import Lock
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_LEADS = object()
_NOTHING = object()


class _Waiter:
    """Somebody who waits, on a loop of their own; ``told`` is the answer, or that it is now for them to ask."""

    __slots__ = ("future", "loop", "told")

    def __init__(self) -> None:
        self.loop: AbstractEventLoop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self.loop.create_future()
        self.told: Any = _NOTHING

    def tell(self, told: Any) -> bool:
        """Tell it, from any thread; False for one whose loop is gone."""
        self.told = told
        try:
            self.loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            return False
        return True

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class Flights(Generic[T]):
    """The calls under way of one process, by their content keys.

    A failure is its own caller's alone: the next who waits then asks, one at a time. So it is when a caller is cancelled.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[bytes, deque[_Waiter]] = {}

    async def once(self, key: bytes, ask: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Give the answer, and whether it was asked for here."""
        waiter = self._join(key)
        if waiter is not None and (told := await self._wait(key, waiter)) is not _LEADS:
            return told, False
        try:
            answer = await ask()
        except BaseException:
            self._pass_on(key)
            raise
        self._land(key, answer)
        return answer, True

    def _join(self, key: bytes) -> _Waiter | None:
        """Begin a call, or wait for one that is under way."""
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is None:
                self._waiting[key] = deque()
                return None
            waiter = _Waiter()
            waiting.append(waiter)
            return waiter

    async def _wait(self, key: bytes, waiter: _Waiter) -> Any:
        try:
            await waiter.future
        except BaseException:
            with self._lock:
                leads = waiter.told is _LEADS
                if waiter.told is _NOTHING:
                    self._waiting[key].remove(waiter)
            if leads:
                self._pass_on(key)
            raise
        return waiter.told

    def _pass_on(self, key: bytes) -> None:
        """Let the next one ask; nobody, if nobody waits."""
        with self._lock:
            waiting = self._waiting[key]
            while waiting:
                if waiting.popleft().tell(_LEADS):
                    return
            del self._waiting[key]

    def _land(self, key: bytes, answer: T) -> None:
        with self._lock:
            for waiter in self._waiting.pop(key):
                waiter.tell(answer)
