"""Watches how much memory process groups hold."""

from __future__ import annotations

import os
from asyncio import AbstractEventLoop
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from importlib import import_module
from typing import Any

from graphmill.engine.threads import Threads

EVERY_S = 0.1


class MemoryWatch:
    """Weighs groups ten times a second, in a thread of its own, and tells the weights of each round.

    ``groups`` gives those to weigh, each with whatever is to be known of it again at ``weighed(groups, bytes by group)``.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        groups: Callable[[], dict[int, Any]],
        weighed: Callable[[dict[int, Any], Counter[int]], None],
    ) -> None:
        self._loop = loop
        self._groups = groups
        self._weighed = weighed
        self._system: Any = import_module("psutil")
        self._threads = Threads(loop, "graphmill-memory", most=1)
        self._timer = loop.call_later(EVERY_S, self._weigh)
        self._is_closed = False

    def dismiss(self) -> None:
        """Weigh no more."""
        self._is_closed = True
        self._timer.cancel()
        self._threads.dismiss()

    async def wait_gone(self, grace_s: float) -> None:
        """Wait until nothing is left of it."""
        await self._threads.wait_gone(grace_s)

    def _weigh(self) -> None:
        groups = self._groups()
        try:
            self._threads.submit(partial(resident_bytes, self._system, groups), partial(self._tell, groups))
        except RuntimeError:  # the system gives no thread now
            self._timer = self._loop.call_later(EVERY_S, self._weigh)

    def _tell(self, groups: dict[int, Any], weights: Counter[int] | None, _error: BaseException | None) -> None:
        if self._is_closed:
            return
        self._timer = self._loop.call_later(EVERY_S, self._weigh)
        if weights:
            self._weighed(groups, weights)


def resident_bytes(system: Any, groups: Collection[int]) -> Counter[int]:
    """Add up the resident memory of each process group's members."""
    weights: Counter[int] = Counter()
    for pid in system.pids() if groups else ():
        try:
            group = os.getpgid(pid)
            if group in groups:
                weights[group] += system.Process(pid).memory_info().rss
        except (ProcessLookupError, PermissionError, system.Error):  # it ended meanwhile, or is not ours
            continue
    return weights
