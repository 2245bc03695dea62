"""The rate of durable no-op items where few run at once, against a commit for each row by hand."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.durable import insert, record
from benchmarks.figure import Figure, Reading, middle
from benchmarks.trial import trial

_ITEMS = 4000  # a second or so: what a run over none takes is subtracted, and varies by some hundredths
_CONCURRENCIES = (1, 10)
_REPETITIONS = 11  # disks have moods


async def _noop(number: int) -> int:
    return number


def ours(concurrency: int) -> float:
    """Tell the items per second of a recorded run."""
    return _ITEMS / record(_noop, _ITEMS, concurrency=concurrency, clock=time.perf_counter)


def by_hand() -> float:
    """Tell the rows per second of a loop that commits each."""
    return _ITEMS / insert(_ITEMS, group=1)


def _measure() -> Reading:
    rates = [
        (trial(by_hand), [trial(ours, concurrency=concurrency) for concurrency in _CONCURRENCIES])
        for _ in range(_REPETITIONS)
    ]
    single = f"{median(usual for usual, _ in rates):,.0f} single commits a second"
    shares = [[mine[index] / usual for usual, mine in rates] for index in range(len(_CONCURRENCIES))]
    note = "; ".join(
        f"{median(share):.2f} × at concurrency {each}" for each, share in zip(_CONCURRENCIES, shares, strict=True)
    )
    return middle(min(shares, key=median), f"{single}; {note}")


FIGURE = Figure(
    name="durable-commits",
    title="rate of durable no-op items at concurrency 1 and 10, the lower, over a commit for each row by hand",
    bound="at least",
    target=0.6,
    form="{:.2f} ×",
    measure=_measure,
)
