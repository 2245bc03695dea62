"""How long it takes to choose 100 of 100,000 problems in a file by a filter, where the last of them is at its end."""

from __future__ import annotations

import json
import time
from pathlib import Path

import graphmill as gm
from benchmarks.durable import fresh_folder
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require
from benchmarks.trial import trial

_PROBLEMS = 100_000
_LIMIT = 100
_REPETITIONS = 7


def seconds(path: str) -> float:
    """Count, check and run the items, as a batch does, with a function that does nothing."""
    began = time.perf_counter()
    source = gm.source(path, filters={"level": 5, "subject": "Geometry"}, limit=_LIMIT)
    report = gm.batch(len, source, total=source.count(), keep_results=False)
    took = time.perf_counter() - began
    require(_LIMIT, report.statistics.succeeded)
    return took


def _write(path: Path) -> None:
    every = _PROBLEMS // _LIMIT
    with path.open("w", encoding="utf-8") as file:
        for number in range(1, _PROBLEMS + 1):
            metadata = {"level": 1 + number % 5, "subject": "Algebra", "solution": "By Vieta's formulas, " * 20}
            if number % every == 0:
                metadata |= {"level": 5, "subject": "Geometry"}
            problem = {"id": f"p{number}", "problem": f"What is {number} + 1?", "ground_truth": str(number + 1)}
            file.write(json.dumps({**problem, "metadata": metadata, "domain": "math"}) + "\n")


def _measure() -> Reading:
    with fresh_folder() as folder:
        path = folder / "problems.jsonl"
        _write(path)
        size = path.stat().st_size / 1e6
        return middle([trial(seconds, path=str(path)) for _ in range(_REPETITIONS)], f"a file of {size:.0f} MB")


FIGURE = Figure(
    name="source-select",
    title="time to run 100 of 100,000 problems in JSON Lines that a filter takes, the last of them at the end",
    bound="at most",
    target=1.0,
    form="{:.3f} s",
    measure=_measure,
)
