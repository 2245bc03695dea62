"""How long a workflow of 200 nodes takes from its file to a graph that can run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import graphmill as gm
from benchmarks.durable import fresh_folder
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require
from benchmarks.trial import trial
from benchmarks.workflow import WORKFLOWS

_NODES = 200
_REPETITIONS = 9


def load_ms() -> float:
    """Tell the milliseconds of one load, in a process that has loaded another workflow before."""
    gm.load(WORKFLOWS / "chain.yaml")  # the first imports
    with fresh_folder() as folder:
        path = _written(folder / "long.yaml")
        began = time.perf_counter()
        graph = gm.load(path)
        took = time.perf_counter() - began
    require(_NODES, len(graph.nodes))
    return took * 1000


def _written(path: Path) -> Path:
    path.write_text("\n".join(_lines()), encoding="utf-8")
    return path


def _lines() -> Iterator[str]:
    """Give a chain in which each node reads the one before it, the first one and an input."""
    yield "name: long\ninputs: {number: {required: true}}\nnodes:"
    yield _node(0, "${number}")
    for number in range(1, _NODES):
        yield _node(number, f"${{node-{number - 1}.result}}")
    yield f'outputs:\n  last: "${{node-{_NODES - 1}.result}}"\n  all: "${{number}} became ${{node-0.result}}"'


def _node(number: int, reads: str) -> str:
    called = f'function: "benchmarks.workflow_functions:doubled", inputs: {{number: "{reads}"}}'
    return f"  - id: node-{number}\n    type: python\n    params: {{{called}}}"


def _measure() -> Reading:
    return middle([trial(load_ms) for _ in range(_REPETITIONS)], f"{_NODES} python nodes in YAML")


FIGURE = Figure(
    name="compile-time",
    title="time to load and compile a workflow of 200 nodes",
    bound="at most",
    target=60,
    form="{:.1f} ms",
    measure=_measure,
)
