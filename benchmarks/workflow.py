"""The workflows that are measured, and one run of one of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import graphmill as gm
from benchmarks.streaming import require

WORKFLOWS = Path(__file__).parent / "workflows"


def output_of(graph: gm.Graph, **inputs: Any) -> Any:
    """Run one job in memory and give its output, or refuse to have measured anything."""
    result = gm.run(graph, inputs)
    require(1, int(result.status == "succeeded"))
    return result.output


def cpu_of(graph: gm.Graph, **inputs: Any) -> tuple[float, Any]:
    """Tell the CPU seconds of one job in memory, and its output."""
    began = time.process_time()
    output = output_of(graph, **inputs)
    return time.process_time() - began, output
