"""How long a resume takes, from the start of its process to the first attempt, when nearly all is done."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.figure import Figure, Reading, middle
from benchmarks.interrupted import copied, interrupted, resume
from benchmarks.trial import trial

_FINISHED = 100_000
_FEW = 1000
_REPETITIONS = 5


def _seconds(folder: Path) -> float:
    with copied(folder) as copy:
        began = time.monotonic()  # one clock for all processes
        return trial(resume, folder=str(copy)) - began


def _measure() -> Reading:
    with interrupted(_FEW) as few, interrupted(_FINISHED) as many:
        _seconds(few)  # the first start after an install compiles
        least = middle([_seconds(few) for _ in range(_REPETITIONS)])
        return middle([_seconds(many) for _ in range(_REPETITIONS)], f"{least.value:.3f} s when {_FEW:,} are done")


FIGURE = Figure(
    name="resume-time",
    title="time from a resume's start to its first attempt, 100,000 items done, the last 100 open",
    bound="at most",
    target=1.5,
    form="{:.3f} s",
    measure=_measure,
)
