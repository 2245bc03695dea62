"""The time to score small programs in the sandbox, against a bare interpreter for each in a pool of the same size."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio.subprocess import DEVNULL
from statistics import median

from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require
from graphmill.scoring.scorer import make_scorer

_PROGRAMS = 164
_REPETITIONS = 5
_WORKERS = os.cpu_count() or 1
_BODY = "    return sorted(set(items + [{number}]))[-1] + len(re.sub('a', 'b', 'a' * {number}))\n"


def _problem(number: int) -> dict[str, str]:
    prompt = f'import re\nfrom typing import List\n\n\ndef solve(items: List[int]) -> int:\n    """Solve {number}."""\n'
    asserts = "".join(f"    assert candidate([{each}]) == {max(each, number) + number}\n" for each in range(7))
    return {"prompt": prompt, "test": f"def check(candidate):\n{asserts}", "entry_point": "solve"}


async def _sandboxed() -> float:
    """Tell the seconds of scoring all programs, the start and end of the sandboxes included."""
    scorer = make_scorer("code")
    began = time.perf_counter()
    try:
        scores = await _all(lambda number: scorer.call(answer=_BODY.format(number=number), problem=_problem(number)))
    finally:
        await scorer.close()
    took = time.perf_counter() - began
    require(_PROGRAMS, sum(score.value == 1 for score in scores))
    return took


async def _bare() -> float:
    """Tell the same of one interpreter for each program, without any protection."""
    began = time.perf_counter()
    codes = await _all(_run_bare)
    took = time.perf_counter() - began
    require(_PROGRAMS, codes.count(0))
    return took


async def _run_bare(number: int) -> int:
    problem = _problem(number)
    program = f"{problem['prompt']}{_BODY.format(number=number)}\n{problem['test']}\ncheck(solve)\n"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", program, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
    )
    return await process.wait()


async def _all(act):
    free = asyncio.Semaphore(_WORKERS)

    async def one(number):
        async with free:
            return await act(number)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(_PROGRAMS)]
    return [task.result() for task in tasks]


def _measure() -> Reading:
    asyncio.run(_sandboxed())  # the first imports
    pairs = [(asyncio.run(_bare()), asyncio.run(_sandboxed())) for _ in range(_REPETITIONS)]
    bare, ours = (median(column) / _PROGRAMS * 1e3 for column in zip(*pairs, strict=True))
    note = f"{ours:.1f} ms a program, a bare interpreter {bare:.1f} ms; {_WORKERS} at once"
    return middle([mine / plain for plain, mine in pairs], note)


FIGURE = Figure(
    name="sandbox-time",
    title=f"wall time of scoring {_PROGRAMS} small programs with tests in the sandbox, over a bare interpreter for each",
    bound="at most",
    target=1.5,
    form="{:.2f} ×",
    measure=_measure,
)
