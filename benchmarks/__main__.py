"""The door: measure all figures, or those named, and print the table."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path

from benchmarks import (
    adaptive,
    adaptive_cpu,
    async_cpu,
    busy_slots,
    durable_busy,
    durable_commits,
    durable_cpu,
    durable_rate,
    journal_bytes,
    memory,
    process_cost,
    rate,
    resume_memory,
    resume_time,
    stall,
    start_up,
    thread_cpu,
)
from benchmarks.figure import Reading
from benchmarks.machine import machine
from benchmarks.table import as_markdown, save

_ENGINE = (async_cpu, adaptive_cpu, rate, busy_slots, memory, thread_cpu, process_cost, stall, start_up)
_JOURNAL = (durable_cpu, durable_rate, durable_busy, durable_commits, resume_time, resume_memory, journal_bytes)
_FIGURES = {figure.name: figure for figure in (*(module.FIGURE for module in (*_ENGINE, *_JOURNAL)), *adaptive.FIGURES)}
_RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Measure, print, and save if all figures were measured; 1 if a target is missed."""
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"measure only these: {', '.join(_FIGURES)}; nothing is saved then")
    names = parser.parse_args().name or list(_FIGURES)
    if unknown := set(names) - set(_FIGURES):
        parser.error(f"no figure is called {', '.join(sorted(unknown))}; there are {', '.join(_FIGURES)}")
    entries = [(_FIGURES[name], _measured(name)) for name in names]
    print(as_markdown(entries))
    if set(names) == set(_FIGURES):
        save(entries, machine(), _RESULTS)
    return 0 if all(figure.is_reached(reading) for figure, reading in entries) else 1


def _measured(name: str) -> Reading:
    print(f"measuring {name} …", file=sys.stderr, flush=True)
    return _FIGURES[name].measure()


if __name__ == "__main__":
    sys.exit(main())
