"""The door: measure all figures, or those named, and print the table."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from pathlib import Path

from benchmarks import (
    adaptive,
    adaptive_cpu,
    async_cpu,
    batch_cpu,
    batch_memory,
    busy_slots,
    chain_cpu,
    chain_langgraph,
    compile_time,
    durable_busy,
    durable_commits,
    durable_cpu,
    durable_rate,
    http_rate,
    journal_bytes,
    langgraph_durable,
    local_overhead,
    math_pairs,
    memory,
    model_cpu,
    model_killed,
    model_knee,
    model_memory,
    model_rate,
    model_throttled,
    model_unthrottled,
    money_cpu,
    nested_cpu,
    pipeline_cpu,
    process_cost,
    prompt_bytes,
    rate,
    repeats_stall,
    resume_memory,
    resume_time,
    run_time,
    sandbox_time,
    shell_overhead,
    source_select,
    stall,
    start_up,
    thread_cpu,
    traces_time,
)
from benchmarks.figure import Figure, NotMeasuredError, Reading, not_measured
from benchmarks.machine import machine
from benchmarks.table import as_markdown, save

_ENGINE = (async_cpu, adaptive_cpu, rate, busy_slots, memory, thread_cpu, process_cost, stall, start_up)
_JOURNAL = (
    durable_cpu,
    durable_rate,
    durable_busy,
    durable_commits,
    resume_time,
    resume_memory,
    journal_bytes,
    prompt_bytes,
)
_WORKFLOWS = (chain_cpu, chain_langgraph, batch_cpu, nested_cpu, batch_memory, compile_time, run_time, repeats_stall)
_NODES = (source_select, shell_overhead, http_rate, langgraph_durable, pipeline_cpu, math_pairs, sandbox_time)
_MODELS = (model_rate, model_cpu, model_knee, model_unthrottled, model_memory, money_cpu, local_overhead)
_SINGLE: tuple[Figure, ...] = tuple(module.FIGURE for module in (*_ENGINE, *_JOURNAL, *_WORKFLOWS, *_NODES, *_MODELS))
_FIGURES = {
    figure.name: figure
    for figure in (*_SINGLE, *traces_time.FIGURES, *model_throttled.FIGURES, *model_killed.FIGURES, *adaptive.FIGURES)
}
_RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Measure, print, and save if all figures were measured; 1 if a target is missed."""
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"measure only these: {', '.join(_FIGURES)}; nothing is saved then")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # who has installed a package starts it compiled
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
    try:
        return _FIGURES[name].measure()
    except NotMeasuredError as error:
        return not_measured(str(error))


if __name__ == "__main__":
    sys.exit(main())
