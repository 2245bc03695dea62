"""Timers and other callbacks of the loop that nobody awaits: a bug in one ends the run instead of hanging it."""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from functools import wraps
from itertools import takewhile
from typing import Any, Generic, Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")

Args = TypeVarTuple("Args")


class Crashable(Protocol):
    """Something that can end with an error."""

    def crash(self, error: BaseException) -> None:
        """End with this error."""


A = TypeVar("A", bound=Crashable)


def ends_run_on_error(method: Callable[[A, *Args], None]) -> Callable[[A, *Args], None]:
    """End the run if this callback raises."""

    @wraps(method)
    def call(self: A, /, *args: *Args) -> None:
        try:
            method(self, *args)
        except KeyboardInterrupt as error:  # interrupted half-way, the run can't continue
            self.crash(error)
            raise
        except BaseException as error:  # noqa: BLE001
            self.crash(error)

    return call


class Deadlines(Generic[T]):
    """Calls ``expire(thing)`` for each thing that is not cleared within ``delay_s`` of being set; None means never."""

    def __init__(self, loop: AbstractEventLoop, delay_s: float | None, expire: Callable[[T], None]) -> None:
        self._loop = loop
        self._delay_s = delay_s
        self._expire = expire
        self._due: dict[T, float] = {}
        self._timer: TimerHandle | None = None

    def set(self, thing: T, now: float) -> None:
        """Start the clock of a thing."""
        if self._delay_s is None:
            return
        due = self._due[thing] = now + self._delay_s
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._check)

    def clear(self, thing: T) -> None:
        """Forget a thing, if it is still set."""
        self._due.pop(thing, None)

    def pause(self, thing: T) -> float | None:
        """Stop the clock of a thing; return what is left of its time, None if none was set."""
        due = self._due.pop(thing, None)
        return None if due is None else due - self._loop.time()

    def resume(self, thing: T, left_s: float) -> None:
        """Restart the clock of a paused thing with so much time left."""
        self._due[thing] = self._loop.time() + left_s
        self._due = dict(sorted(self._due.items(), key=lambda entry: entry[1]))
        self._arm()

    def shorten(self, delay_s: float) -> None:
        """Shorten the delay, also for all things that are set."""
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
        """Set the timer to the first deadline."""
        if self._timer is not None:
            self._timer.cancel()
        first = next(iter(self._due.values()), None)
        self._timer = None if first is None else self._loop.call_at(first, self._check)


class Timers:
    """Timers by name, all cancelled together."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._timers: dict[str, TimerHandle] = {}
        self._is_closed = False

    def set(self, name: str, delay_s: float, act: Callable[..., None], *args: Any) -> None:
        """Call a function later, unless closed; a timer of this name is replaced."""
        self.cancel(name)
        if not self._is_closed:
            self._timers[name] = self._loop.call_later(delay_s, self._expire, name, act, args)

    def is_set(self, name: str) -> bool:
        """Whether this timer is running."""
        return name in self._timers

    def cancel(self, name: str) -> None:
        """Stop a timer, if it is running."""
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Stop all timers, and start none any more."""
        self._is_closed = True
        for name in list(self._timers):
            self.cancel(name)

    def _expire(self, name: str, act: Callable[..., None], args: tuple[Any, ...]) -> None:
        del self._timers[name]
        act(*args)
