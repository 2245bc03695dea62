"""Calls of a model, in the two ways that are compared: recorded by us, and by a bare aiohttp loop that stores nothing."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from random import Random

import graphmill as gm
from benchmarks.durable import fresh_folder
from benchmarks.streaming import require
from benchmarks.workflow import WORKFLOWS

CONCURRENCY = 64
_WAIT_S = 0.2
_RETRY = gm.Retry(attempts=8, wait_s=_WAIT_S)
_CLOCKS: dict[bool, Callable[[], float]] = {True: time.process_time, False: time.perf_counter}


def text_of(number: int) -> str:
    """Give what one item says."""
    return f"Item {number:06d}: say in one sentence what this review is about. {'The tea was warm and the room was quiet. ' * 5}"


def ours(address: str, count: int, *, is_cpu: bool = False) -> float:
    """Tell the seconds, or the CPU seconds, that a recorded run of so many calls takes beyond one of none."""
    return recorded(address, count, is_cpu=is_cpu) - recorded(address, 0, is_cpu=is_cpu)


def recorded(
    address: str, count: int, *, concurrency: int = CONCURRENCY, is_adaptive: bool | None = None, is_cpu: bool = False
) -> float:
    """Tell the same of the whole run: with what it takes to make a store, to take hold of the run and to close both."""
    os.environ["OPENAI_BASE_URL"] = f"{address}/v1"
    graph, policy = (
        gm.load(WORKFLOWS / "model.yaml"),
        gm.Policy(concurrency=concurrency, adaptive=is_adaptive, retry=_RETRY),
    )
    items = [{"text": text_of(number)} for number in range(count)]
    with fresh_folder() as folder:
        gm.batch(graph, [{"text": "the first imports"}], policy=policy, journal=folder / "first.db")
        began = _CLOCKS[is_cpu]()
        report = gm.batch(graph, items, policy=policy, journal=folder / "runs.db", run_id="benchmark")
        took = _CLOCKS[is_cpu]() - began
        require(count, report.statistics.succeeded)
    return took


def bare(address: str, count: int, *, concurrency: int = CONCURRENCY, is_cpu: bool = False) -> float:
    """Tell the same of a loop that asks, parses, and waits as long as ours would before it asks again."""
    return asyncio.run(_bare(f"{address}/v1/chat/completions", count, concurrency, _CLOCKS[is_cpu]))


async def _bare(url: str, count: int, concurrency: int, clock: Callable[[], float]) -> float:
    import aiohttp  # noqa: PLC0415

    places, random, answers = asyncio.Semaphore(concurrency), Random(1), []

    async def ask(number: int) -> None:
        body = {"model": "measured", "messages": [{"role": "user", "content": text_of(number)}]}
        failures = 0
        while True:
            async with session.post(url, json=body) as response:
                answer = await response.json()
            places.release()
            if response.status == 200:
                answers.append(answer["choices"][0]["message"]["content"])
                return
            after = response.headers.get("Retry-After")
            await asyncio.sleep(
                _WAIT_S * 2**failures * random.uniform(1, 1.5) if after is None else int(after) * random.uniform(1, 1.1)
            )
            failures += after is None
            await places.acquire()

    async def ask_all(numbers: range) -> None:
        async with asyncio.TaskGroup() as group:
            for number in numbers:
                await places.acquire()  # here, so that what is asked again is behind no others but one
                group.create_task(ask(number))

    async with aiohttp.ClientSession() as session:
        await ask_all(range(count, count + 1))  # the first imports
        answers.clear()
        began = clock()
        await ask_all(range(count))
        took = clock() - began
    require(count, len(answers))
    return took
