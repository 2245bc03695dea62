"""A run that is killed at its half and given again as it was: what is asked twice, and how long the rest takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from benchmarks.durable import fresh_folder
from benchmarks.figure import Figure, middle
from benchmarks.model_calls import CONCURRENCY, bare, text_of
from benchmarks.model_server import counts_of, model_server
from benchmarks.streaming import require
from benchmarks.trial import trial

_CALLS = 4000
_CALL_S = 0.05
_REPETITIONS = 3
_LONGEST_S = 120


@cache
def _outcomes() -> list[tuple[int, float]]:
    return [_outcome() for _ in range(_REPETITIONS)]


def _outcome() -> tuple[int, float]:
    """Tell how many calls were answered twice, and the wall time of the second command over that of a bare loop for as many calls.

    Both are whole processes, from their start to their end.
    """
    with fresh_folder() as folder, model_server("steady", _CALL_S) as address:
        command = _command(folder)
        _killed_at_half(command, address)
        half, began = counts_of(address), time.perf_counter()
        subprocess.run(
            command,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=_env(address),
            timeout=_LONGEST_S,
        )
        took_s = time.perf_counter() - began
        counts = counts_of(address)
        require(_CALLS, counts["answered"] - counts["twice"])
        began = time.perf_counter()
        trial(bare, address=address, count=counts["requests"] - half["requests"])
        return counts["twice"], took_s / (time.perf_counter() - began)


def _command(folder: Path) -> list[str]:
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as rows:
        for number in range(_CALLS):
            rows.write(json.dumps({"id": str(number), "text": text_of(number)}) + "\n")
    asked = [
        "--prompt",
        "${text}",
        "--model",
        "openai/measured",
        "--source",
        str(folder / "rows.jsonl"),
        "--concurrency",
        str(CONCURRENCY),
    ]
    return [
        sys.executable,
        "-m",
        "graphmill",
        "batch",
        *asked,
        "--run-id",
        "killed",
        "--journal",
        str(folder / "runs.db"),
    ]


def _env(address: str) -> dict[str, str]:
    return {**os.environ, "OPENAI_BASE_URL": f"{address}/v1"}


def _killed_at_half(command: list[str], address: str) -> None:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_env(address)) as process:
        while counts_of(address)["answered"] < _CALLS // 2 and process.poll() is None:
            time.sleep(0.02)  # else the count is all that the server does
        process.kill()


FIGURES = (
    Figure(
        name="model-killed-twice",
        title="calls answered twice, of 4,000 killed at half and run again by the same command, concurrency 64",
        bound="at most",
        target=2 * CONCURRENCY,
        form="{:.0f}",
        measure=lambda: middle([twice for twice, _ in _outcomes()]),
    ),
    Figure(
        name="model-killed-rest",
        title="wall time of the rest, from the command's start to its end, over a bare aiohttp loop's",
        bound="at most",
        target=1.3,
        form="{:.2f} ×",
        measure=lambda: middle([rest for _, rest in _outcomes()]),
    ),
)
