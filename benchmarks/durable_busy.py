"""The rate of durable items that wait, against plain asyncio that stores nothing."""

from __future__ import annotations

import asyncio
import time
from statistics import median

from benchmarks import rate
from benchmarks.durable import record, record_whole
from benchmarks.figure import Figure, Reading, middle
from benchmarks.trial import trial

_ITEMS = 2000
_ITEM_S = 0.05
_CONCURRENCY = 64
_REPETITIONS = 7


async def _wait(number: int) -> int:
    await asyncio.sleep(_ITEM_S)
    return number


def ours() -> float:
    """Tell the items per second of a recorded run."""
    return _ITEMS / record(_wait, _ITEMS, concurrency=_CONCURRENCY, clock=time.perf_counter)


def empty() -> float:
    """Tell the seconds of a recorded run without items: what it takes to make a store, to take hold of the run and to close both."""
    return record_whole(_wait, 0, concurrency=_CONCURRENCY, clock=time.perf_counter)


def _measure() -> Reading:
    rates = [(trial(rate.plain, concurrency=_CONCURRENCY), trial(ours)) for _ in range(_REPETITIONS)]
    per_s = median(mine for _, mine in rates)
    possible = _CONCURRENCY / _ITEM_S
    once_s = median(trial(empty) for _ in range(_REPETITIONS))
    note = f"{per_s:,.0f} items a second of {possible:,.0f} possible; {once_s:.2f} s once to make and close the journal (not counted)"
    return middle([mine / usual for usual, mine in rates], note)


FIGURE = Figure(
    name="durable-busy",
    title="rate of 2,000 durable items of 50 ms, concurrency 64, over plain asyncio that stores nothing",
    bound="at least",
    target=0.95,
    form="{:.3f} ×",
    measure=_measure,
)
