"""Callbacks beside the run: called in order, off the loop if they are plain functions, and unable to harm it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from graphmill.engine.workers import Workers, is_async

BREATH_S = 0.005
PATIENCE = 200

log = logging.getLogger("graphmill")


class Subscriber:
    """One callback and the bounded queue before it.

    Beyond ``capacity`` the oldest letters are dropped and counted; None drops nothing, and is for a callback whose
    letters are bounded by the window. ``after`` is told of each letter once the callback has seen it. A callback that
    raises is reported once; it is dropped unless ``is_kept``.
    """

    def __init__(
        self,
        name: str,
        callback: Callable[..., Any],
        workers: Workers,
        *,
        capacity: int | None,
        is_kept: bool = False,
        after: Callable[[tuple[Any, ...]], None] | None = None,
    ) -> None:
        self._name = name
        self._callback = callback
        self._workers = workers
        self._is_async = is_async(callback)
        self._letters: deque[tuple[Any, ...]] = deque(maxlen=capacity)
        self._is_kept = is_kept
        self._after = after
        self._errors = 0
        self._dropped = 0
        self._patience = PATIENCE
        self._has_letters = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._is_gone = False
        workers.spawn(self._serve())

    def offer(self, *letter: Any) -> None:
        """Let the callback see this when it gets to it."""
        if self._is_gone:
            return
        self._dropped += len(self._letters) == self._letters.maxlen
        self._letters.append(letter)
        self._is_idle.clear()
        self._has_letters.set()

    def needs_breath(self) -> bool:
        """Ask for a breath's pause while the queue is more than half full, as often as patience lasts.

        A busy loop starves the threads in which plain callbacks run. So a quick one gets the time it needs, and a slow one
        holds the run for a second in all, then misses events.
        """
        is_behind = self._patience > 0 and 2 * len(self._letters) > (self._letters.maxlen or 0)
        self._patience -= is_behind
        return is_behind

    async def drain(self, timeout_s: float) -> None:
        """Wait, but not longer than this, until the callback has seen everything."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._is_idle.wait()
        if self._dropped and self._letters.maxlen != 1:
            log.warning("%s was too slow: %d events were not shown to it", self._name, self._dropped)

    async def _serve(self) -> None:
        while not self._is_gone:
            await self._has_letters.wait()
            self._has_letters.clear()
            letters = list(self._letters)
            self._letters.clear()
            if self._is_async:
                await self._call_async(letters)
            else:
                await self._workers.submit(partial(self._call_in_thread, letters))
            if self._after is not None:
                for letter in letters:
                    self._after(letter)
            if not self._letters:
                self._is_idle.set()
        self._letters.clear()
        self._is_idle.set()

    async def _call_async(self, letters: list[tuple[Any, ...]]) -> None:
        for letter in letters:
            try:
                if not self._is_gone:
                    await self._callback(*letter)
            except (Exception, SystemExit) as error:  # noqa: BLE001
                self._report(error)

    def _call_in_thread(self, letters: list[tuple[Any, ...]]) -> None:
        for letter in letters:
            try:
                if not self._is_gone:
                    self._callback(*letter)
            except BaseException as error:  # noqa: BLE001
                self._report(error)

    def _report(self, error: BaseException) -> None:
        self._errors += 1
        if self._errors == 1:
            then = "it is called again for the next" if self._is_kept else "it is called no more"
            log.error("%s raised; %s", self._name, then, exc_info=error)
        self._is_gone = not self._is_kept
