"""How much more memory a resume needs when a hundred times as many items are done."""

from __future__ import annotations

from benchmarks.figure import Figure, Reading, middle
from benchmarks.interrupted import interrupted, resume
from benchmarks.memory import MB, peak_bytes
from benchmarks.trial import trial

_FEW = 1000
_MANY = 100_000


def peak(folder: str) -> float:
    """Tell the most memory, in MB, that this process has had once the run is resumed to its end."""
    resume(folder)
    return peak_bytes() / MB


def _peak_after(finished: int) -> float:
    with interrupted(finished) as folder:
        return trial(peak, folder=str(folder))


def _measure() -> Reading:
    few, many = _peak_after(_FEW), _peak_after(_MANY)
    return middle([many - few], f"{few:.1f} MB at {_FEW:,}, {many:.1f} MB at {_MANY:,}")


FIGURE = Figure(
    name="resume-memory",
    title="resident memory of a resume with 100,000 items done above one with 1,000",
    bound="at most",
    target=16,
    form="{:.1f} MB",
    measure=_measure,
)
