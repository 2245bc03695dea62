"""One callback beside the run: called in order, off the loop if it is a plain function, and unable to harm it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from graphmill.engine.threads import Mailbox
from graphmill.engine.workers import Workers, is_async

BREATH_S = 0.005
PATIENCE = 200

log = logging.getLogger("graphmill")


class Subscriber:
    """A callback and the queue before it.

    A listener has a ``capacity``: beyond it the oldest letters are dropped and counted. If it raises, that is reported and
    it is called no more. With ``then`` the callback is a stage on a letter's way instead: nothing is dropped (the window
    bounds what can wait), ``then`` gets each letter once the callback has seen it, and one that raises is called again.
    """

    def __init__(
        self,
        name: str,
        callback: Callable[..., Any],
        workers: Workers,
        *,
        capacity: int | None = None,
        then: Callable[[tuple[Any, ...]], None] | None = None,
    ) -> None:
        self._name = name
        self._callback = callback
        self._workers = workers
        self._is_async = is_async(callback)
        self._letters: deque[tuple[Any, ...]] = deque(maxlen=capacity)
        self._then = then
        self._seen = Mailbox(workers.loop, self._pass_on)
        self._owed: dict[int, tuple[Any, ...]] = {}
        self._last_in_hand: tuple[Any, ...] | None = None
        self.errors = 0
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
            if self._then is not None:
                self._then(letter)
            return
        self._dropped += len(self._letters) == self._letters.maxlen
        self._letters.append(letter)
        if self._then is not None:
            self._owed[id(letter)] = letter
        self._is_idle.clear()
        self._has_letters.set()

    def take_breath(self) -> bool:
        """Ask for a breath's pause while the queue is more than half full, as often as patience lasts.

        A busy loop starves the threads in which plain callbacks run. So a quick one gets the time it needs, and a slow one
        holds the run for a second in all, then misses letters.
        """
        is_behind = self._patience > 0 and 2 * len(self._letters) > (self._letters.maxlen or 0)
        self._patience -= is_behind
        return is_behind

    def unhang(self) -> None:
        """Wait no longer for a stage that is where it was when last asked: pass on what it holds up, and call it no more.

        To be called now and then; a slow stage that gets on is left in peace.
        """
        in_hand = next(iter(self._owed.values()), None)
        if in_hand is not None and in_hand is self._last_in_hand:
            self._is_gone = True
            for letter in list(self._owed.values()):
                self._pass_on(letter)
        self._last_in_hand = in_hand

    async def wait_idle(self) -> None:
        """Wait until the callback has seen everything."""
        await self._is_idle.wait()

    def report_drops(self) -> None:
        """Say how much a listener has missed; a newest reading that replaced an older one is not missed."""
        if self._dropped and self._letters.maxlen != 1:
            log.warning("%s was too slow: %d events were not shown to it", self._name, self._dropped)

    async def _serve(self) -> None:
        while not self._is_gone:
            await self._has_letters.wait()
            self._has_letters.clear()
            letters = list(self._letters)
            self._letters.clear()
            if self._is_async:
                await self._call_on_loop(letters)
            else:
                await self._workers.submit(partial(self._call_in_thread, letters))
            self._seen.empty()
            if not self._letters:
                self._is_idle.set()
        self._letters.clear()
        self._is_idle.set()

    async def _call_on_loop(self, letters: list[tuple[Any, ...]]) -> None:
        for letter in letters:
            try:
                if not self._is_gone:
                    await self._callback(*letter)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                self._report(error)  # the callback's own, as when it awaits a cancelled task
            except (Exception, SystemExit) as error:  # noqa: BLE001
                self._report(error)
            self._pass_on(letter)

    def _call_in_thread(self, letters: list[tuple[Any, ...]]) -> None:
        for letter in letters:
            try:
                if not self._is_gone:
                    self._callback(*letter)
            except BaseException as error:  # noqa: BLE001
                self._report(error)
            if self._then is not None:
                self._seen.post(letter)

    def _pass_on(self, letter: tuple[Any, ...]) -> None:
        if self._then is not None and self._owed.pop(id(letter), None) is not None:
            self._then(letter)

    def _report(self, error: BaseException) -> None:
        self.errors += 1
        if self.errors == 1:
            then = "it is called no more" if self._then is None else "it is called again for the next"
            log.error("%s raised; %s", self._name, then, exc_info=error)
        self._is_gone = self._is_gone or self._then is None
