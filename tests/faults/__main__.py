"""``make soak HOURS=8`` goes through every crash point once, and meanwhile and after it kills runs with fresh seeds.

``NIGHT=17`` replays the night of a seed, ``STEPS=17`` one of a workflow of many steps, ``FAULT=write-17-torn`` a crash point.
"""

import argparse
import shutil
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import chain, count
from os import cpu_count
from pathlib import Path
from random import Random

from faults import crash_points, harness, shim, step_nights


def night_of(seed, folder):
    """Play a night; give its name and what was wrong."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        played = harness.play(harness.Night.of(seed), Path(place) / "project")
    return f"NIGHT={seed}", played.problems, played.killed


def step_night_of(seed, whole, folder):
    with tempfile.TemporaryDirectory(dir=folder) as place:
        played = step_nights.play(step_nights.StepNight.of(seed), Path(place) / "project", whole)
    return f"STEPS={seed}", played.problems, len(played.kills)


def fault_of(fault, whole, folder):
    with tempfile.TemporaryDirectory(dir=folder) as place:
        return f"FAULT={fault}", crash_points.problems(Path(place) / "project", whole, fault), int(fault.is_kill)


def arguments():
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--night", help="replay the night of this seed")
    parser.add_argument("--steps", help="replay the night of this seed, of a workflow of many steps")
    parser.add_argument("--fault", help="replay one crash point, such as write-17-torn")
    return parser.parse_args()


def main():
    asked, folder = arguments(), Path(tempfile.mkdtemp(prefix="graphmill-soak-"))
    try:
        with ProcessPoolExecutor(cpu_count()) as pool:
            return _soak(pool, _tasks(asked, folder), until=time.monotonic() + 3600 * asked.hours)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tasks(asked, folder):
    """What is to be done, in this order: functions and their arguments, without end unless one was named."""
    if asked.night is not None:
        return iter([(night_of, asked.night, folder)])
    rows = step_nights.whole_rows(folder / "whole-steps")
    if asked.steps is not None:
        return iter([(step_night_of, asked.steps, rows, folder)])
    whole = None if shim.missing() else crash_points.Whole(folder / "whole", shim.compiled(folder))
    if asked.fault is not None:
        kind, at, action = asked.fault.split("-")
        return iter([(fault_of, shim.Fault(kind=kind, at=int(at), action=action), whole, folder)])
    first = time.time_ns() // 10**9
    faults = [] if whole is None else whole.faults()
    Random(first).shuffle(faults)  # a short soak sees some of everything
    sys.stdout.write(f"{len(faults)} crash points, and nights from NIGHT={first} and STEPS={first} on\n")
    nights = chain.from_iterable(
        ((night_of, str(seed), folder), (step_night_of, str(seed), rows, folder)) for seed in count(first)
    )
    return chain(chain.from_iterable(((fault_of, fault, whole, folder), next(nights)) for fault in faults), nights)


def _soak(pool, tasks, *, until):
    """Keep the pool busy until the time is over; tell of every failure as it comes."""
    running, done, kills, broken, figures = set(), 0, 0, 0, ""
    while True:
        while len(running) < 2 * cpu_count() and time.monotonic() < until and (task := next(tasks, None)):
            running.add(pool.submit(*task))
        if not running:
            break
        ready, running = wait(running, return_when=FIRST_COMPLETED)
        for name, problems, killed in (future.result() for future in ready):
            done, kills, broken = done + 1, kills + killed, broken + bool(problems)
            if problems:
                sys.stdout.write("\n".join([f"BROKEN make soak {name}", *map(str, problems)]) + "\n")
                sys.stdout.flush()
        figures = f"{done} runs, {kills} kills, {broken} broken"
        sys.stderr.write(f"\r{figures}")
    sys.stderr.write("\n")
    sys.stdout.write(f"{figures}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
