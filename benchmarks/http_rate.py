"""The rate of durable http items, against a bare aiohttp loop that stores nothing."""

from __future__ import annotations

import asyncio
import time
from statistics import median

import graphmill as gm
from benchmarks.durable import fresh_folder
from benchmarks.figure import Figure, Reading, middle
from benchmarks.slow_server import slow_server
from benchmarks.streaming import require
from benchmarks.trial import trial
from benchmarks.workflow import WORKFLOWS

_ITEMS = 2000
_ITEM_S = 0.05
_CONCURRENCY = 64
_REPETITIONS = 5


def ours(address: str, *, is_cpu: bool = False) -> float:
    """Tell the seconds, or the CPU seconds, that a recorded run of a workflow of one http node takes beyond one over no items."""
    return _recorded(address, _ITEMS, is_cpu=is_cpu) - empty(address, is_cpu=is_cpu)


def empty(address: str, *, is_cpu: bool = False) -> float:
    """Tell the same of one over no items: what it takes to make a store, to take hold of the run and to close both."""
    return _recorded(address, 0, is_cpu=is_cpu)


def _recorded(address: str, count: int, *, is_cpu: bool) -> float:
    graph, policy = gm.load(WORKFLOWS / "http.yaml"), gm.Policy(concurrency=_CONCURRENCY)
    items = [{"address": address, "number": number} for number in range(count)]
    gm.batch(graph, [{"address": address, "number": 0}], policy=policy)  # the first imports
    clock = time.process_time if is_cpu else time.perf_counter
    with fresh_folder() as folder:
        began = clock()
        report = gm.batch(graph, items, policy=policy, journal=folder / "runs.db", run_id="benchmark")
        took = clock() - began
        require(count, report.statistics.succeeded)
        require(count, len({output["path"] for output in report.collect()}))
    return took


def bare(address: str, *, is_cpu: bool = False) -> float:
    """Tell the same of a loop that asks and parses, and no more."""
    return asyncio.run(_bare(address, time.process_time if is_cpu else time.perf_counter))


async def _bare(address: str, clock) -> float:
    import aiohttp  # noqa: PLC0415

    numbers = iter(range(_ITEMS))
    found = set()

    async def ask() -> None:
        for number in numbers:
            async with session.get(f"{address}/items/{number}") as response:
                response.raise_for_status()
                found.add((await response.json())["path"])

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        began = clock()
        await asyncio.gather(*(ask() for _ in range(_CONCURRENCY)))
        took = clock() - began
    require(_ITEMS, len(found))
    return took


def _measure() -> Reading:
    with slow_server(_ITEM_S) as address:
        times = [(trial(bare, address=address), trial(ours, address=address)) for _ in range(_REPETITIONS)]
        cpu = trial(ours, address=address, is_cpu=True) / trial(bare, address=address, is_cpu=True)
        once_s = median(trial(empty, address=address) for _ in range(_REPETITIONS))
    per_s = _ITEMS / median(mine for _, mine in times)
    speed = f"{per_s:,.0f} items a second of {_CONCURRENCY / _ITEM_S:,.0f} possible, at {cpu:.1f} × the CPU time"
    note = f"{speed}; {once_s:.2f} s once to make and close the journal (not counted)"
    return middle([usual / mine for usual, mine in times], note)


FIGURE = Figure(
    name="http-rate",
    title="rate of 2,000 durable http items of 50 ms, concurrency 64, over a bare aiohttp loop that stores nothing",
    bound="at least",
    target=0.95,
    form="{:.3f} ×",
    measure=_measure,
)
