"""The CPU of items in a batch within a batch, against as many in one."""

from __future__ import annotations

from statistics import median

import graphmill as gm
from benchmarks import batch_cpu
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require
from benchmarks.trial import trial
from benchmarks.workflow import WORKFLOWS, cpu_of

_SIDE = 100
_REPETITIONS = 7


def nested() -> float:
    """Tell the CPU seconds of one job in memory with that many rows of that many numbers."""
    graph = gm.load(WORKFLOWS / "nested.yaml")
    cpu_of(graph, height=1, width=1)  # the first imports
    spent, output = cpu_of(graph, height=_SIDE, width=_SIDE)
    require(_SIDE * _SIDE, sum(row["succeeded"] for row in output["rows"]))
    return spent


def _measure() -> Reading:
    spent = [(trial(batch_cpu.ours), trial(nested)) for _ in range(_REPETITIONS)]
    flat_us, nested_us = (median(column) / batch_cpu.ITEMS * 1e6 for column in zip(*spent, strict=True))
    return middle([deep / flat for flat, deep in spent], f"{nested_us:.1f} µs an item; {flat_us:.1f} µs flat")


FIGURE = Figure(
    name="nested-cpu",
    title="CPU of a batch of 100 workflows with a batch of 100 items each, over the same 10,000 items in one batch",
    bound="at most",
    target=1.5,
    form="{:.2f} ×",
    measure=_measure,
)
