"""The time of a workflow of one small command per item, against asyncio's subprocesses by hand."""

from __future__ import annotations

import asyncio
import os
import time
from asyncio.subprocess import DEVNULL, PIPE
from statistics import median

import graphmill as gm
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require
from benchmarks.trial import trial
from benchmarks.workflow import WORKFLOWS, output_of

_ITEMS = 1_000
_CONCURRENCY = 8
_REPETITIONS = 9


def _cpu() -> float:
    """Tell the CPU seconds of this process and of all its children that have ended."""
    return sum(os.times()[:4])


_CLOCKS = {"wall": time.perf_counter, "cpu": _cpu}


def ours(clock: str) -> float:
    """Tell the seconds of a run of the workflow."""
    graph = gm.load(WORKFLOWS / "shell.yaml")
    output_of(graph, number=0)  # the first imports
    items = [{"number": number} for number in range(_ITEMS)]
    began = _CLOCKS[clock]()
    report = gm.batch(graph, items, concurrency=_CONCURRENCY)
    spent = _CLOCKS[clock]() - began
    require(_ITEMS, sum(result.output["stdout"] == f"{result.input['number']}\n" for result in report.results()))
    return spent


def by_hand(clock: str) -> float:
    """Tell the same of the usual idiom, which gives the value as an argument and keeps what was written."""
    asyncio.run(_say(0, asyncio.Semaphore(1)))  # the first imports
    began = _CLOCKS[clock]()
    said = asyncio.run(_say_all())
    spent = _CLOCKS[clock]() - began
    require(_ITEMS, sum(text == f"{number}\n" for number, text in enumerate(said)))
    return spent


async def _say_all() -> list[str]:
    free = asyncio.Semaphore(_CONCURRENCY)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_say(number, free)) for number in range(_ITEMS)]
    return [task.result() for task in tasks]


async def _say(number: int, free: asyncio.Semaphore) -> str:
    async with free:
        words = ("/bin/sh", "-c", 'echo "$1"', "sh", str(number))
        process = await asyncio.create_subprocess_exec(
            *words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        stdout, _ = await process.communicate()
        require(0, process.returncode or 0)
        return stdout.decode()


def _measure() -> Reading:
    wall = [(trial(by_hand, clock="wall"), trial(ours, clock="wall")) for _ in range(_REPETITIONS)]
    cpu = [trial(ours, clock="cpu") / trial(by_hand, clock="cpu") for _ in range(3)]
    hand_ms, our_ms = (median(column) / _ITEMS * 1e3 for column in zip(*wall, strict=True))
    note = f"{our_ms:.2f} ms an item, by hand {hand_ms:.2f} ms; CPU, children included, {median(cpu):.2f} ×"
    return middle([mine / usual for usual, mine in wall], note)


FIGURE = Figure(
    name="shell-overhead",
    title="wall time of 1,000 items of one small shell command, 8 at once, over asyncio.create_subprocess_exec by hand",
    bound="at most",
    target=1.3,
    form="{:.2f} ×",
    measure=_measure,
)
