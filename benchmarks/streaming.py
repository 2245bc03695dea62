"""The public streaming door, used the same way by every figure."""

from __future__ import annotations

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


def require(count: int, found: int) -> None:
    """Refuse the time of a run that did not do its work."""
    if found != count:
        raise RuntimeError(f"{count} jobs should have come to the expected end, {found} did: nothing was measured")
