"""The CPU that one no-op async item costs, against plain asyncio."""

from __future__ import annotations

import asyncio
import time
from statistics import median

import graphmill as gm
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require, seconds_of
from benchmarks.trial import trial

_ITEMS = 100_000
_CONCURRENCY = 100
_REPETITIONS = 7


async def _noop(number: int) -> int:
    return number


def ours() -> float:
    """Tell the CPU seconds of a run."""
    return seconds_of(_noop, _ITEMS, gm.Policy(concurrency=_CONCURRENCY), clock=time.process_time)


def plain(items: int = _ITEMS) -> float:
    """Tell the CPU seconds of the usual idiom: a task for each item at once, each waiting for the semaphore."""
    began = time.process_time()
    asyncio.run(_gathered(items))
    return time.process_time() - began


def lean() -> float:
    """Tell the CPU seconds of the cheapest loop by hand: a task is made only once the semaphore lets it in."""
    began = time.process_time()
    asyncio.run(_lazily())
    return time.process_time() - began


async def _gathered(items: int) -> None:
    slots = asyncio.Semaphore(_CONCURRENCY)

    async def one(number: int) -> int:
        async with slots:
            return await _noop(number)

    require(items, len(await asyncio.gather(*(one(number) for number in range(items)))))


async def _lazily() -> None:
    slots = asyncio.Semaphore(_CONCURRENCY)
    under_way: set[asyncio.Task[int]] = set()

    def ended(task: asyncio.Task[int]) -> None:
        under_way.discard(task)
        slots.release()

    for number in range(_ITEMS):
        await slots.acquire()
        task = asyncio.create_task(_noop(number))
        under_way.add(task)
        task.add_done_callback(ended)
    await asyncio.gather(*under_way)


def _measure() -> Reading:
    spent = [(trial(plain), trial(ours), trial(lean)) for _ in range(_REPETITIONS)]
    each_us = median(mine for _, mine, _ in spent) / _ITEMS * 1e6
    leaner = median(mine / least for _, mine, least in spent)
    note = f"{each_us:.1f} µs an item; {leaner:.2f} × a loop that makes a task only when a slot is free (no target)"
    return middle([mine / usual for usual, mine, _ in spent], note)


FIGURE = Figure(
    name="async-cpu",
    title="CPU per no-op async item, 100,000 items, over plain asyncio",
    bound="at most",
    target=3.5,
    form="{:.2f} ×",
    measure=_measure,
)
