"""How busy the slots are while items fail and wait for their next attempt."""

from __future__ import annotations

import asyncio
import time

import graphmill as gm
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import jobs, require, stream
from benchmarks.trial import trial

_ITEMS = 2000
_ITEM_S = 0.05
_CONCURRENCY = 100
_REPETITIONS = 7
_RETRY = gm.Retry(attempts=3, wait_s=0.1, backoff="fixed", jitter=False)


class _Watch:
    """The function under test, and the record of when its attempts began and ended."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._spans: list[tuple[float, float]] = []
        self._first_starts: list[float] = []

    async def attempt(self, number: int) -> int:
        """Take the item's time, then fail if this is the first attempt of every tenth item."""
        began = time.perf_counter()
        is_first = number not in self._seen
        if is_first:
            self._seen.add(number)
            self._first_starts.append(began)
        try:
            await asyncio.sleep(_ITEM_S)
            if is_first and number % 10 == 0:
                raise gm.Transient("the first attempt of every tenth item")
            return number
        finally:
            self._spans.append((began, time.perf_counter()))

    def busy_share(self) -> float:
        """Tell the share of slot-time in use from the first start until no unstarted job is left."""
        opened, closed = self._first_starts[0], self._first_starts[-1]
        busy = sum(max(0.0, min(ended, closed) - began) for began, ended in self._spans)
        return busy / (_CONCURRENCY * (closed - opened))


def share() -> float:
    """Tell the busy share of one run."""
    watch = _Watch()
    executor = gm.BatchExecutor(gm.Policy(concurrency=_CONCURRENCY, retry=_RETRY))
    statistics = asyncio.run(stream(executor, jobs(watch.attempt, _ITEMS)))
    require(_ITEMS, statistics.succeeded)
    require(_ITEMS // 10, statistics.retries)
    return watch.busy_share()


def _measure() -> Reading:
    return middle([trial(share) for _ in range(_REPETITIONS)], "while unstarted jobs remain")


FIGURE = Figure(
    name="busy-slots",
    title="slot-time busy, the same items with 10 % transient failures and waits of 100 ms",
    bound="at least",
    target=0.95,
    form="{:.3f}",
    measure=_measure,
)
