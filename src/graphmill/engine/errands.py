"""Errands: what threads have asked the loop to do for their attempt. They end with it, so that all they have used is its own."""

from __future__ import annotations

from asyncio import CancelledError, Task
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any

from graphmill.engine.deadlines import Deadlines
from graphmill.engine.frame import Frame


class Errands:
    """Those of one run that are under way, by the outermost frame of their attempt; ``grace`` is the time to end that each has."""

    def __init__(self, grace: Deadlines[Any]) -> None:
        self.under_way: dict[Frame, set[Task[None]]] = {}
        self._grace = grace
        self._awaited: set[Future[Any]] = set()
        self._is_closed = False
        self._lock = Lock()

    def expect(self, future: Future[Any]) -> None:
        """Take note, in any thread, of what a thread waits for: it is told when nothing will come of it any more."""
        with self._lock:
            if self._is_closed:
                raise CancelledError
            self._awaited.add(future)
        future.add_done_callback(self._awaited.discard)

    def close(self) -> None:
        """Let no thread wait any longer: the loop may never turn again."""
        with self._lock:
            self._is_closed = True
            left = list(self._awaited)
        for future in left:
            with suppress(InvalidStateError):  # it has just come
                future.set_exception(CancelledError())

    def begin(self, frame: Frame, task: Task[None]) -> None:
        """Take note of one that was asked for in this frame."""
        while frame.up is not None:
            frame = frame.up
        self.under_way.setdefault(frame, set()).add(task)
        task.add_done_callback(partial(self._done, frame))

    def end(self, frame: Frame | None, ended: Callable[[], None], now: float) -> bool:
        """Cancel those of an attempt and call ``ended`` when they are gone, or their grace is over; tell whether there are any."""
        left = {task for task in self.under_way.pop(frame, ()) if not task.done()} if frame is not None else None
        if not left:
            return False
        self._grace.set(_Ending(left, ended, self._grace), now)
        for task in left:
            task.cancel()
        return True

    def _done(self, frame: Frame, task: Task[None]) -> None:
        tasks = self.under_way.get(frame, set())
        tasks.discard(task)
        if not tasks:
            self.under_way.pop(frame, None)


class _Ending:
    """Errands that were cancelled; ``ended`` is called once."""

    __slots__ = ("_ended", "_grace", "_left")

    def __init__(self, left: set[Task[None]], ended: Callable[[], None], grace: Deadlines[Any]) -> None:
        self._left = left
        self._ended: Callable[[], None] | None = ended
        self._grace = grace
        for task in left:
            task.add_done_callback(self._gone)

    def abandon(self) -> None:
        """Wait no longer."""
        if self._ended is not None:
            ended, self._ended = self._ended, None
            ended()

    def _gone(self, task: Task[None]) -> None:
        self._left.discard(task)
        if not self._left:
            self._grace.clear(self)
            self.abandon()
