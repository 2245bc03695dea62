"""A run that was killed near its end, and its resume: what the figures of resume are measured on."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from subprocess import CalledProcessError

import graphmill as gm
from benchmarks.durable import fresh_folder
from benchmarks.streaming import require
from benchmarks.trial import trial

_OPEN = 100
_RUN = "benchmark"

_waits = False
_attempts: list[float] = []


async def work(item: dict[str, object]) -> dict[str, object]:
    """Answer at once; an item that is to be left open never ends in the first run. Public, as a resume imports it by its name."""
    _attempts.append(time.monotonic())
    if _waits and item["is_left"]:
        await asyncio.Event().wait()
    return {"text": "y" * 80}


@contextmanager
def interrupted(finished: int) -> Iterator[Path]:
    """Give a folder with the source and the journal of a run that was killed with so many items finished and the last hundred open."""
    with fresh_folder() as folder:
        with (folder / "rows.jsonl").open("w", encoding="utf-8") as rows:
            for number in range(finished + _OPEN):
                row = {"id": f"item-{number:06d}", "is_left": number >= finished, "text": "x" * 50}
                rows.write(json.dumps(row) + "\n")
        with suppress(CalledProcessError):
            trial(run_and_die, folder=str(folder), finished=finished)
        yield folder


@contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """Give a copy of such a folder, since a resume changes it; the source stays where it was."""
    with fresh_folder() as copy:
        yield shutil.copytree(folder, copy / "again")


def resume(folder: str) -> float:
    """Go on with the run to its end; tell when, on the monotonic clock, the first attempt began."""
    with closing(gm.open_journal(Path(folder) / "runs.db")) as journal:
        report = gm.resume(_RUN, journal=journal)
    require(_OPEN, len(_attempts))
    require(report.statistics.succeeded, report.statistics.total or 0)
    return _attempts[0]


def run_and_die(folder: str, finished: int) -> float:
    """Run until all is committed but what is to be left open, then kill this process."""
    global _waits  # noqa: PLW0603  the resume, in another process, is to find the same function
    _waits = True
    left = finished

    def committed(_job: gm.Job, _result: gm.Result) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    rows, journal = Path(folder) / "rows.jsonl", Path(folder) / "runs.db"
    gm.batch(work, gm.source(rows), concurrency=2 * _OPEN, journal=journal, run_id=_RUN, on_result=committed)
    return 0.0
