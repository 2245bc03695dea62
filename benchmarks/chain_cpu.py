"""The CPU that one item costs in a workflow of three async functions, against plain asyncio that awaits them one after the other."""

from __future__ import annotations

import asyncio
import time
from statistics import median

import graphmill as gm
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require, seconds_of
from benchmarks.trial import trial
from benchmarks.workflow import WORKFLOWS
from benchmarks.workflow_functions import as_text, doubled, increased

_ITEMS = 100_000
_FEWER = 20_000
CONCURRENCY = 100
_REPETITIONS = 5


def ours(items: int = _ITEMS) -> float:
    """Tell the CPU seconds of a run in memory."""
    graph = gm.load(WORKFLOWS / "chain.yaml")
    policy = gm.Policy(concurrency=CONCURRENCY)
    seconds_of(
        graph, 10, policy, clock=time.process_time
    )  # the first imports, which the peer too makes before it is timed
    return seconds_of(graph, items, policy, clock=time.process_time)


def plain(items: int = _ITEMS) -> float:
    """Tell the CPU seconds of the usual idiom: a task for each item at once, each waiting for the semaphore."""
    began = time.process_time()
    asyncio.run(_gathered(items))
    return time.process_time() - began


async def _gathered(items: int) -> None:
    slots = asyncio.Semaphore(CONCURRENCY)

    async def one(number: int) -> str:
        async with slots:
            return await as_text(await doubled(await increased(number)))

    require(items, len(await asyncio.gather(*(one(number) for number in range(items)))))


def _measure() -> Reading:
    spent = [(trial(plain), trial(ours)) for _ in range(_REPETITIONS)]
    usual_us, mine_us = (median(column) / _ITEMS * 1e6 for column in zip(*spent, strict=True))
    # A task for each item at once costs plain asyncio more the more there are, so the number of items decides with.
    fewer = median(trial(ours, items=_FEWER) / trial(plain, items=_FEWER) for _ in range(_REPETITIONS))
    note = f"{mine_us:.1f} µs an item; {usual_us:.1f} µs by hand; {fewer:.2f} × of {_FEWER:,} items (no target)"
    return middle([mine / usual for usual, mine in spent], note)


FIGURE = Figure(
    name="chain-cpu",
    title="CPU per item of a workflow of three async functions, 100,000 items in memory, over plain asyncio",
    bound="at most",
    target=8.0,
    form="{:.2f} ×",
    measure=_measure,
)
