"""The CPU that the predecessor spends on an item of its batch node, against ours."""

from __future__ import annotations

from statistics import median

import graphmill as gm
from benchmarks.figure import Figure, Reading, middle
from benchmarks.peer import Peer
from benchmarks.streaming import require
from benchmarks.trial import trial
from benchmarks.workflow import WORKFLOWS, cpu_of

ITEMS = 10_000
_REPETITIONS = 5
_PFLOW = Peer("pflow")


def ours() -> float:
    """Tell the CPU seconds of one job in memory whose node has that many items."""
    graph = gm.load(WORKFLOWS / "batch.yaml")
    cpu_of(graph, count=1)  # the first imports
    spent, output = cpu_of(graph, count=ITEMS)
    require(ITEMS, output["succeeded"])
    return spent


def _measure() -> Reading:
    answers = [
        (_PFLOW.ask("pflow_batch", WORKFLOWS / "batch.pflow.md", ITEMS), trial(ours)) for _ in range(_REPETITIONS)
    ]
    each = [(answer["cpu_s_per_item"], spent / ITEMS) for answer, spent in answers]
    their_us, our_us = (median(column) * 1e6 for column in zip(*each, strict=True))
    note = f"{our_us:.1f} µs an item; pflow {answers[0][0]['version']} {their_us:.0f} µs, in a code node"
    return middle([theirs / mine for theirs, mine in each], note)


FIGURE = Figure(
    name="batch-cpu",
    title="CPU per item of the predecessor's parallel batch node, 10,000 items, over ours with an async function",
    bound="at least",
    target=12.0,
    form="{:.1f} ×",
    measure=_measure,
)
