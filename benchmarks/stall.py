"""The longest stall of the loop while everything fails at once."""

from __future__ import annotations

import asyncio
import logging
import time
from itertools import product
from typing import Any

import graphmill as gm
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import jobs, require, stream
from benchmarks.trial import trial

_ITEMS = 10_000
_CONCURRENCY = 512
_REPETITIONS = 5
_PROBE_S = 0.001
_RETRIES = {"once": gm.Retry(attempts=1), "retried": gm.Retry(attempts=3, wait_s=0.01)}
_HOOKS = {"bare": False, "hooked": True}


async def _fail(number: int) -> None:
    _parse(number)


def _parse(number: int) -> None:
    _read_field(number)


def _read_field(number: int) -> None:
    _refuse(number)


def _refuse(number: int) -> None:
    raise RuntimeError(f"the answer to item {number} could not be read")


class LoopProbe:
    """A task on the same loop that wants to run every millisecond, and notes by how much it was kept from it."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        """Note the largest lateness, until cancelled."""
        while True:
            asked = time.perf_counter()
            await asyncio.sleep(_PROBE_S)
            self.longest_s = max(self.longest_s, time.perf_counter() - asked - _PROBE_S)


class _Hooks:
    """An observer and an on_result that do the least a real one would."""

    def __init__(self) -> None:
        self.events = 0
        self.results = 0

    def observe(self, _event: gm.Event) -> None:
        """Count an event."""
        self.events += 1

    def on_result(self, _job: gm.Job, _result: gm.Result) -> None:
        """Count a result."""
        self.results += 1


def longest_ms(retry: str, hooks: str) -> float:
    """Tell the longest stall, in milliseconds, of one storm."""
    logging.getLogger("graphmill").setLevel(
        logging.ERROR
    )  # that a saturated loop leaves observers behind is not this figure's matter
    counted = _Hooks()
    wanted: dict[str, Any] = {"on_result": counted.on_result, "observers": [counted.observe]} if _HOOKS[hooks] else {}
    executor = gm.BatchExecutor(gm.Policy(concurrency=_CONCURRENCY, retry=_RETRIES[retry]), **wanted)
    statistics, stall_s = asyncio.run(_storm(executor))
    require(_ITEMS, statistics.failed)
    if _HOOKS[hooks]:
        require(_ITEMS, counted.results)
    return stall_s * 1000


async def _storm(executor: gm.BatchExecutor) -> tuple[gm.Statistics, float]:
    probe = LoopProbe()
    watching = asyncio.create_task(probe.watch())
    await asyncio.sleep(10 * _PROBE_S)
    statistics = await stream(executor, jobs(_fail, _ITEMS))
    await asyncio.sleep(10 * _PROBE_S)  # a stall at the very end is seen only by the probe's next turn
    watching.cancel()
    return statistics, probe.longest_s


def _measure() -> Reading:
    variants = list(product(_RETRIES, _HOOKS))
    rounds = [[trial(longest_ms, retry=retry, hooks=hooks) for retry, hooks in variants] for _ in range(_REPETITIONS)]
    readings = {
        ", ".join(variant): middle(stalls) for variant, stalls in zip(variants, zip(*rounds, strict=True), strict=True)
    }
    worst = max(readings.values(), key=lambda reading: reading.value)
    note = "; ".join(f"{name} {reading.value:.1f}" for name, reading in readings.items())
    return Reading(
        value=worst.value,
        lowest=worst.lowest,
        highest=worst.highest,
        repetitions=_REPETITIONS,
        note=f"ms by variant: {note}",
    )


FIGURE = Figure(
    name="stall",
    title="longest stall of the loop, 10,000 failing items, concurrency 512, worst variant",
    bound="at most",
    target=50,
    form="{:.1f} ms",
    measure=_measure,
)
