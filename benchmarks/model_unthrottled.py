"""200 calls of a server that never refuses, at a ceiling of 64: our time with the adaptive limit over that with a fixed one."""

from __future__ import annotations

from benchmarks.figure import Figure, Reading, middle
from benchmarks.model_calls import recorded
from benchmarks.model_server import model_server
from benchmarks.trial import trial

_CALLS = 200
_CALL_S = 0.2
_REPETITIONS = 5


def _measure() -> Reading:
    with model_server("steady", _CALL_S) as address:
        return middle([_ratio(address) for _ in range(_REPETITIONS)])


def _ratio(address: str) -> float:
    adaptive, fixed = (
        trial(recorded, address=address, count=_CALLS, is_adaptive=is_adaptive) for is_adaptive in (None, False)
    )
    return adaptive / fixed


FIGURE = Figure(
    name="model-unthrottled",
    title="time of 200 calls of 0.2 s that are never refused, by default at a ceiling of 64, over the same with a fixed limit",
    bound="at most",
    target=1.05,
    form="{:.3f} ×",
    measure=_measure,
)
