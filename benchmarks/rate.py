"""The rate of items that wait, against plain asyncio."""

from __future__ import annotations

import asyncio
import time
from statistics import median

import graphmill as gm
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require, seconds_of
from benchmarks.trial import trial

_ITEMS = 2000
_ITEM_S = 0.05
_CONCURRENCY = 100
_REPETITIONS = 9


async def _wait(number: int) -> int:
    await asyncio.sleep(_ITEM_S)
    return number


def ours() -> float:
    """Tell the items per second of a run."""
    return _ITEMS / seconds_of(_wait, _ITEMS, gm.Policy(concurrency=_CONCURRENCY), clock=time.perf_counter)


def plain(concurrency: int = _CONCURRENCY) -> float:
    """Tell the items per second of a semaphore and gather."""
    began = time.perf_counter()
    asyncio.run(_gathered(concurrency))
    return _ITEMS / (time.perf_counter() - began)


async def _gathered(concurrency: int) -> None:
    slots = asyncio.Semaphore(concurrency)

    async def one(number: int) -> int:
        async with slots:
            return await _wait(number)

    require(_ITEMS, len(await asyncio.gather(*(one(number) for number in range(_ITEMS)))))


def _measure() -> Reading:
    rates = [(trial(plain), trial(ours)) for _ in range(_REPETITIONS)]
    per_s = median(mine for _, mine in rates)
    possible = _CONCURRENCY / _ITEM_S
    return middle([mine / usual for usual, mine in rates], f"{per_s:,.0f} items a second of {possible:,.0f} possible")


FIGURE = Figure(
    name="rate",
    title="rate of 2,000 items of 50 ms, concurrency 100, over plain asyncio",
    bound="at least",
    target=0.98,
    form="{:.3f} ×",
    measure=_measure,
)
