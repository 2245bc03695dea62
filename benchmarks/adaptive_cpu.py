"""The CPU that one no-op async item costs while its limit adapts, against a fixed one."""

from __future__ import annotations

import time
from statistics import median

import graphmill as gm
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import seconds_of
from benchmarks.trial import trial

_ITEMS = 100_000
_CONCURRENCY = 100
_REPETITIONS = 7


async def _noop(number: int) -> int:
    return number


def spent(*, adaptive: bool) -> float:
    """Tell the CPU seconds of a run."""
    return seconds_of(_noop, _ITEMS, gm.Policy(concurrency=_CONCURRENCY, adaptive=adaptive), clock=time.process_time)


def _measure() -> Reading:
    pairs = [(trial(spent, adaptive=False), trial(spent, adaptive=True)) for _ in range(_REPETITIONS)]
    each_us = median(adaptive for _, adaptive in pairs) / _ITEMS * 1e6
    return middle([adaptive / fixed for fixed, adaptive in pairs], f"{each_us:.1f} µs an item")


FIGURE = Figure(
    name="adaptive-cpu",
    title="CPU per no-op async item with an adaptive limit, over a fixed one",
    bound="at most",
    target=1.3,
    form="{:.2f} ×",
    measure=_measure,
)
