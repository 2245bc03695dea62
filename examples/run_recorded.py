"""A batch that is recorded: killed half-way, it goes on, and what was done is not done again: ``python examples/run_recorded.py``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

import graphmill as gm

ITEMS = [{"id": f"town-{number}", "name": "x" * number} for number in range(1, 21)]
KILLED_AT = "town-12"


def look_up(name: str) -> dict[str, int]:
    """Stand in for a slow or costly call; each one leaves a line, to be counted."""
    with Path("calls.txt").open("a") as file:
        file.write(f"{name}\n")
    return {"letters": len(name)}


async def describe(town: dict[str, Any]) -> str:
    """Make the call as a step: once it has ended it is not made again, though the function may be."""
    facts = await gm.step(look_up, town["name"])
    if town["id"] == KILLED_AT and os.environ.get("KILLED"):
        os._exit(9)  # as kill -9 would
    return f"{town['id']} has {facts['letters']} letters"


def run() -> gm.Report:
    """Begin the run, or go on with it if it is there: one call for both."""
    return gm.batch(describe, ITEMS, run_id="towns", journal="towns.db", concurrency=4)


def main() -> None:
    """Let the first process die, then go on with what it left."""
    died = subprocess.run(
        [sys.executable, Path(__file__).resolve(), "first"], env={**os.environ, "KILLED": "1"}, check=False
    )
    assert died.returncode == 9

    report = run()
    before = report.statistics.succeeded - report.done_now
    print(f"{report.summary()}: {before} before the kill, {report.done_now} after it")
    assert report.statistics.succeeded == len(ITEMS)

    calls = Path("calls.txt").read_text().splitlines()
    assert calls.count(ITEMS[11]["name"]) == 1  # its step was recorded, so only the rest of it was repeated
    assert len(calls) <= len(ITEMS) + 2 * 4  # a kill repeats at most twice the concurrency
    print(f"{len(calls)} calls for {len(ITEMS)} items")

    path = report.export("towns.jsonl")  # rows come from the journal
    print(path.read_text().splitlines()[0])


if __name__ == "__main__":
    if sys.argv[1:] == ["first"]:
        run()
    else:
        with tempfile.TemporaryDirectory() as folder, chdir(folder):  # leaves nothing behind
            main()
