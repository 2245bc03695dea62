"""The rate of durable no-op items, against the slower of its two parts alone: the executor in memory, and SQLite by hand."""

from __future__ import annotations

import time
from statistics import median

import graphmill as gm
from benchmarks.durable import insert, record
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import seconds_of
from benchmarks.trial import trial

_ITEMS = 50_000
_CONCURRENCY = 100
_GROUP = 128
_REPETITIONS = 5


async def _noop(number: int) -> int:
    return number


def ours() -> float:
    """Tell the items per second of a recorded run."""
    return _ITEMS / record(_noop, _ITEMS, concurrency=_CONCURRENCY, clock=time.perf_counter)


def in_memory() -> float:
    """Tell the items per second of the same run without a journal."""
    return _ITEMS / seconds_of(_noop, _ITEMS, gm.Policy(concurrency=_CONCURRENCY), clock=time.perf_counter)


def by_hand() -> float:
    """Tell the rows per second of a loop that does nothing but store them."""
    return _ITEMS / insert(_ITEMS, group=_GROUP)


def _measure() -> Reading:
    rates = [(trial(in_memory), trial(by_hand), trial(ours)) for _ in range(_REPETITIONS)]
    memory, stored, mine = (median(column) for column in zip(*rates, strict=True))
    note = f"{mine:,.0f} items a second; {memory:,.0f} in memory, {stored:,.0f} rows by hand in groups of {_GROUP}"
    return middle([mine / min(memory, stored) for memory, stored, mine in rates], note)


FIGURE = Figure(
    name="durable-rate",
    title="rate of 50,000 durable no-op items, over the slower of the executor in memory and SQLite by hand",
    bound="at least",
    target=0.4,
    form="{:.3f} ×",
    measure=_measure,
)
