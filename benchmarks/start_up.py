"""How long the command line takes to answer the simplest questions."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.figure import Figure, Reading, middle

_REPETITIONS = 9


def _seconds(argument: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "graphmill", argument], stdout=subprocess.DEVNULL, check=True, timeout=60)
    return time.perf_counter() - began


def _measure() -> Reading:
    _seconds("--version")  # the first start after an install compiles
    times = {argument: [_seconds(argument) for _ in range(_REPETITIONS)] for argument in ("--version", "--help")}
    readings = {argument: middle(values) for argument, values in times.items()}
    slower = max(readings, key=lambda argument: readings[argument].value)
    note = "; ".join(f"{argument} {reading.value:.3f} s" for argument, reading in readings.items())
    return middle(times[slower], note)


FIGURE = Figure(
    name="start-up",
    title="wall time of graphmill --version and --help, the slower",
    bound="at most",
    target=0.3,
    form="{:.3f} s",
    measure=_measure,
)
