"""The CPU that one durable no-op async item costs, against plain asyncio that stores nothing."""

from __future__ import annotations

import time
from statistics import median

from benchmarks import async_cpu
from benchmarks.durable import record
from benchmarks.figure import Figure, Reading, middle
from benchmarks.trial import trial

_ITEMS = 50_000
_CONCURRENCY = 100
_REPETITIONS = 5


async def _noop(number: int) -> int:
    return number


def ours() -> float:
    """Tell the CPU seconds of a recorded run, those of the thread that writes included."""
    return record(_noop, _ITEMS, concurrency=_CONCURRENCY, clock=time.process_time)


def _measure() -> Reading:
    spent = [(trial(async_cpu.plain, items=_ITEMS), trial(ours)) for _ in range(_REPETITIONS)]
    each_us = median(mine for _, mine in spent) / _ITEMS * 1e6
    return middle([mine / usual for usual, mine in spent], f"{each_us:.1f} µs an item")


FIGURE = Figure(
    name="durable-cpu",
    title="CPU per durable no-op async item, 50,000 items in SQLite, over plain asyncio that stores nothing",
    bound="at most",
    target=8.0,
    form="{:.2f} ×",
    measure=_measure,
)
