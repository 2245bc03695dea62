"""The public streaming door, used the same way by every figure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import graphmill as gm


def jobs(graph: Callable[[Any], Any], count: int) -> Iterator[gm.Job]:
    """Give so many jobs of one function, one at a time, each with its number as input."""
    for number in range(count):
        yield gm.Job(id=str(number), graph=graph, input=number)


async def stream(executor: gm.BatchExecutor, source: Iterator[gm.Job]) -> gm.Statistics:
    """Run all jobs and read every result, keeping none."""
    async with executor.start(source) as run:
        async for _ in run.results():
            pass
    return run.statistics()


def seconds_of(graph: Callable[[Any], Any], count: int, policy: gm.Policy, *, clock: Callable[[], float]) -> float:
    """Tell the seconds, on this clock, of a run over so many jobs that all succeed."""
    executor = gm.BatchExecutor(policy)
    began = clock()
    statistics = asyncio.run(stream(executor, jobs(graph, count)))
    took = clock() - began
    require(count, statistics.succeeded)
    return took


def require(count: int, found: int) -> None:
    """Refuse the time of a run that did not do its work."""
    if found != count:
        raise RuntimeError(f"{count} jobs should have come to the expected end, {found} did: nothing was measured")
