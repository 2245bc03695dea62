"""How much more memory a hundred times as many items need."""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

import graphmill as gm
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import jobs, require, stream
from benchmarks.trial import trial

_FEW = 10_000
_MANY = 1_000_000
_CONCURRENCY = 100
MB = 1024 * 1024


async def _noop(number: int) -> int:
    return number


def peak(items: int) -> float:
    """Tell the most memory, in MB, that this process has had once so many items are through."""
    executor = gm.BatchExecutor(gm.Policy(concurrency=_CONCURRENCY))
    statistics = asyncio.run(stream(executor, jobs(_noop, items)))
    require(items, statistics.succeeded)
    return peak_bytes() / MB


def peak_bytes() -> int:
    """Read the kernel's own mark: on Linux ru_maxrss is inherited from the parent, and would hide a small child."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _measure() -> Reading:
    few, many = trial(peak, items=_FEW), trial(peak, items=_MANY)
    return middle([many - few], f"{few:.1f} MB at 10,000, {many:.1f} MB at 1,000,000")


FIGURE = Figure(
    name="memory",
    title="resident memory at 1,000,000 items above that at 10,000",
    bound="at most",
    target=16,
    form="{:.1f} MB",
    measure=_measure,
)
