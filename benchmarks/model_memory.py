"""How much more memory ten times as many calls with long answers need."""

from __future__ import annotations

from benchmarks.figure import Figure, Reading, middle
from benchmarks.memory import MB, peak_bytes
from benchmarks.model_calls import recorded
from benchmarks.model_server import model_server
from benchmarks.trial import trial

_FEW = 1000
_MANY = 10_000
_ANSWER_BYTES = 20_000


def peak(address: str, count: int) -> float:
    """Tell the most memory, in MB, that this process has had once so many calls are recorded."""
    recorded(address, count)
    return peak_bytes() / MB


def _measure() -> Reading:
    with model_server("steady", 0.01, answer_bytes=_ANSWER_BYTES) as address:
        few, many = trial(peak, address=address, count=_FEW), trial(peak, address=address, count=_MANY)
    return middle([many - few], f"{few:.1f} MB at 1,000, {many:.1f} MB at 10,000")


FIGURE = Figure(
    name="model-memory",
    title="resident memory at 10,000 calls with answers of 20 KB above that at 1,000",
    bound="at most",
    target=24,
    form="{:.1f} MB",
    measure=_measure,
)
