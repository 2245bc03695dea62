"""The longest stall of the loop while rounds are compared by ``repeats``, with texts of 20 kB."""

from __future__ import annotations

import asyncio
import random

import graphmill as gm
from benchmarks.figure import Figure, Reading, middle
from benchmarks.stall import LoopProbe
from benchmarks.streaming import require
from benchmarks.trial import trial
from benchmarks.workflow import WORKFLOWS

_ITEMS = 40
_ROUNDS = 10
_CONCURRENCY = 8
_BYTES = 20_000
_CHANGED = 0.1  # of the words, from round to round: the texts are nearly similar enough, which takes longest to tell
_REPETITIONS = 5
_texts: dict[tuple[int, int], str] = {}


async def criticise(item: int, number: int) -> str:
    """Return a text that differs a little from that of another round."""
    await asyncio.sleep(random.Random(f"{item} {number}").uniform(0.02, 0.1))
    return _texts[item, number]


def _write_texts() -> None:
    chance = random.Random(1)
    for item in range(_ITEMS):
        words = [f"w{chance.randrange(10**4)}" for _ in range(_BYTES // 6)]
        for number in range(1, _ROUNDS + 1):
            own = [f"w{chance.randrange(10**6)}" if chance.random() < _CHANGED else word for word in words]
            _texts[item, number] = " ".join(own)


def longest_ms() -> float:
    """Measure the longest stall of one run, in milliseconds."""
    return asyncio.run(_run()) * 1000


async def _run() -> float:
    graph = gm.load(WORKFLOWS / "repeats.yaml")
    _write_texts()
    probe = LoopProbe()
    watching = asyncio.create_task(probe.watch())
    items = [{"item": number} for number in range(_ITEMS)]
    report = await gm.abatch(graph, items, policy=gm.Policy(concurrency=_CONCURRENCY))
    watching.cancel()
    rounds = [result.output["rounds"] for result in report.results()]
    require(_ITEMS * _ROUNDS, sum(rounds))
    return probe.longest_s


def _measure() -> Reading:
    return middle([trial(longest_ms) for _ in range(_REPETITIONS)])


FIGURE = Figure(
    name="repeats-stall",
    title="longest stall of the loop, 40 items of 10 rounds that `repeats` compares, texts of 20 kB",
    bound="at most",
    target=20,
    form="{:.1f} ms",
    measure=_measure,
)
