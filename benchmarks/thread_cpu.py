"""The CPU that one no-op plain item costs in threads, against run_in_executor by hand."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import graphmill as gm
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require, seconds_of
from benchmarks.trial import trial

_ITEMS = 10_000
_CONCURRENCY = 100
_REPETITIONS = 9


def _noop(number: int) -> int:
    return number


def ours() -> float:
    """Tell the CPU seconds of a run, of all its threads."""
    return seconds_of(_noop, _ITEMS, gm.Policy(concurrency=_CONCURRENCY), clock=time.process_time)


def by_hand() -> float:
    """Tell the CPU seconds of a loop by hand, of all its threads."""
    began = time.process_time()
    asyncio.run(_submitted())
    return time.process_time() - began


async def _submitted() -> None:
    """Submit without a task per item, which is the cheaper of the two ways to write it."""
    loop = asyncio.get_running_loop()
    slots = asyncio.Semaphore(_CONCURRENCY)
    succeeded = 0

    def ended(future: asyncio.Future[int]) -> None:
        nonlocal succeeded
        succeeded += future.exception() is None
        slots.release()

    with ThreadPoolExecutor(_CONCURRENCY) as pool:
        for number in range(_ITEMS):
            await slots.acquire()
            loop.run_in_executor(pool, _noop, number).add_done_callback(ended)
        for _ in range(_CONCURRENCY):
            await slots.acquire()
    require(_ITEMS, succeeded)


def _measure() -> Reading:
    spent = [(trial(by_hand), trial(ours)) for _ in range(_REPETITIONS)]
    each_us = median(mine for _, mine in spent) / _ITEMS * 1e6
    return middle([mine / usual for usual, mine in spent], f"{each_us:.1f} µs an item")


FIGURE = Figure(
    name="thread-cpu",
    title="CPU per no-op plain item in threads, 10,000 items, over run_in_executor by hand",
    bound="at most",
    target=1.5,
    form="{:.2f} ×",
    measure=_measure,
)
