"""Deadlines that share one delay, and so expire in the order in which they were set: a dict and one timer."""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from itertools import takewhile
from typing import Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Calls ``expire(thing)`` for each thing that is not cleared within ``delay_s`` of being set; None is for ever."""

    def __init__(self, loop: AbstractEventLoop, delay_s: float | None, expire: Callable[[T], None]) -> None:
        self._loop = loop
        self._delay_s = delay_s
        self._expire = expire
        self._due: dict[T, float] = {}
        self._timer: TimerHandle | None = None

    def set(self, thing: T, now: float) -> None:
        """Start the time of a thing that is not set."""
        if self._delay_s is None:
            return
        due = self._due[thing] = now + self._delay_s
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._check)

    def clear(self, thing: T) -> None:
        """Forget a thing, if it is still set."""
        self._due.pop(thing, None)

    def hold(self, thing: T) -> float | None:
        """Stop the time of a thing; tell what is left of it, None if none was set."""
        due = self._due.pop(thing, None)
        return None if due is None else due - self._loop.time()

    def go_on(self, thing: T, left_s: float) -> None:
        """Let the time of a thing go on that was held with so much left."""
        self._due[thing] = self._loop.time() + left_s
        self._due = dict(sorted(self._due.items(), key=lambda entry: entry[1]))
        self._arm()

    def shorten(self, delay_s: float) -> None:
        """From now on, and for all things that are set, the delay is no longer than this."""
        self._delay_s = delay_s if self._delay_s is None else min(self._delay_s, delay_s)
        latest = self._loop.time() + self._delay_s
        self._due = {thing: min(due, latest) for thing, due in self._due.items()}
        self._arm()

    def close(self) -> None:
        """Forget all things."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        now = self._loop.time()
        for thing, _ in list(takewhile(lambda entry: entry[1] <= now, self._due.items())):
            if self._due.pop(thing, None) is not None:  # not cleared by what expired before it
                self._expire(thing)
        self._arm()

    def _arm(self) -> None:
        """Come back when the first is due."""
        if self._timer is not None:
            self._timer.cancel()
        first = next(iter(self._due.values()), None)
        self._timer = None if first is None else self._loop.call_at(first, self._check)
