"""How long one run of a three-step workflow takes from the command line, against the predecessor's."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks.figure import Figure, Reading, middle
from benchmarks.peer import Peer, alone, answer, scratch_home
from benchmarks.streaming import require
from benchmarks.workflow import WORKFLOWS

_ROOT = Path(__file__).parent.parent
_REPETITIONS = 9
_PFLOW = Peer("pflow")


def ours(folder: Path) -> float:
    """Tell the seconds of the whole process, run in this folder, which is its home too."""
    command = [Path(sys.executable).with_name("graphmill"), "run", WORKFLOWS / "chain.yaml", "number=20"]
    environment = {**alone(folder), "PYTHONPATH": str(_ROOT)}
    began = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    return _checked(time.perf_counter() - began, done.stdout)


def theirs(folder: Path) -> float:
    """Tell the same of the predecessor."""
    command = [_PFLOW.program("pflow"), "-p", WORKFLOWS / "chain.pflow.md", "number=20"]
    began = time.perf_counter()
    text = answer(command, home=folder, cwd=folder)
    return _checked(time.perf_counter() - began, text)


def _checked(took: float, text: str) -> float:
    require(1, int("number 42" in text))
    return took


def _measure() -> Reading:
    with scratch_home() as folder:
        theirs(folder), ours(folder)  # the first start after an install compiles, and writes its registry
        took = [(theirs(folder), ours(folder)) for _ in range(_REPETITIONS)]
    their_s, our_s = (median(column) for column in zip(*took, strict=True))
    return middle([mine / their for their, mine in took], f"{our_s:.3f} s; pflow {their_s:.3f} s, in code nodes")


FIGURE = Figure(
    name="run-time",
    title="wall time of graphmill run of three steps, the whole process, over the predecessor's",
    bound="at most",
    target=0.5,
    form="{:.2f} ×",
    measure=_measure,
)
