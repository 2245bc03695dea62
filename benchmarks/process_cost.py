"""The wall time of no-op items in worker processes, against ProcessPoolExecutor by hand."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from statistics import median

import graphmill as gm
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require, seconds_of
from benchmarks.trial import trial

_ITEMS = 10_000
_CONCURRENCY = 2
_REPETITIONS = 9


def noop(number: int) -> int:
    """Do nothing; public, as workers import it by its name."""
    return number


def ours() -> float:
    """Tell the seconds of a run, the start and end of its workers included."""
    return seconds_of(noop, _ITEMS, gm.Policy(concurrency=_CONCURRENCY, isolation="process"), clock=time.perf_counter)


def by_hand() -> float:
    """Tell the seconds of the usual idiom, the start and end of its workers included."""
    began = time.perf_counter()
    with ProcessPoolExecutor(_CONCURRENCY) as pool:
        futures = [pool.submit(noop, number) for number in range(_ITEMS)]
        succeeded = sum(future.exception() is None for future in as_completed(futures))
    spent = time.perf_counter() - began
    require(_ITEMS, succeeded)
    return spent


def _measure() -> Reading:
    spent = [(trial(by_hand), trial(ours)) for _ in range(_REPETITIONS)]
    each_us = median(mine for _, mine in spent) / _ITEMS * 1e6
    return middle([mine / usual for usual, mine in spent], f"{each_us:.1f} µs an item")


FIGURE = Figure(
    name="process-cost",
    title="wall time of 10,000 no-op items in 2 worker processes, over ProcessPoolExecutor by hand",
    bound="at most",
    target=2.0,
    form="{:.2f} ×",
    measure=_measure,
)
