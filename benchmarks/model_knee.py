"""A server that never refuses but slows down beyond 24 calls at once: our rate over that of the best fixed number."""

from __future__ import annotations

from benchmarks.figure import Figure, Reading, middle
from benchmarks.model_calls import bare, recorded
from benchmarks.model_server import KNEE, model_server
from benchmarks.trial import trial

_CALLS = 10_000
_CALLS_AT_A_FIXED_NUMBER = 2000  # which is as fast from the first second on
_CALL_S = 0.05
_FIXED = (KNEE - 4, KNEE, KNEE + 4)
_REPETITIONS = 2
_CEILING = 64


def _fixed(concurrency: int) -> float:
    """Tell how many calls a second a bare loop makes."""
    with model_server("knee", _CALL_S) as address:
        return _CALLS_AT_A_FIXED_NUMBER / trial(
            bare, address=address, count=_CALLS_AT_A_FIXED_NUMBER, concurrency=concurrency
        )


def _ours() -> float:
    with model_server("knee", _CALL_S) as address:
        once_s = trial(recorded, address=address, count=0)
        return _CALLS / (
            trial(recorded, address=address, count=_CALLS, concurrency=_CEILING, is_adaptive=True) - once_s
        )


def _measure() -> Reading:
    fixed = {concurrency: _fixed(concurrency) for concurrency in _FIXED}
    best = max(fixed, key=fixed.__getitem__)
    note = f"the best fixed number is {best}, at {fixed[best]:.0f} calls a second"
    return middle([_ours() / fixed[best] for _ in range(_REPETITIONS)], note)


FIGURE = Figure(
    name="model-knee",
    title="rate of 10,000 calls of a server with a knee at 24 and no 429, limit found by itself, over the best fixed number's",
    bound="at least",
    target=0.85,
    form="{:.3f} ×",
    measure=_measure,
)
