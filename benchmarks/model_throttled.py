"""A server that bears 32 calls at once and fails a tenth of all: our rate against a loop that knows it, and what we are refused for."""

from __future__ import annotations

from functools import cache

from benchmarks.figure import Figure, middle
from benchmarks.model_calls import bare, recorded
from benchmarks.model_server import PLACES, counts_of, model_server
from benchmarks.trial import trial

_CALLS = 10_000
_CALL_S = 0.05
_REPETITIONS = 3
_CEILING = 64


@cache
def _outcomes() -> list[tuple[float, float]]:
    return [_outcome() for _ in range(_REPETITIONS)]


def _outcome() -> tuple[float, float]:
    """Tell our rate over the bare loop's, and the share of our requests that was throttled beyond the injected."""
    with model_server("throttled", _CALL_S) as address:
        usual_s = trial(bare, address=address, count=_CALLS, concurrency=PLACES)
    with model_server("throttled", _CALL_S) as address:
        once_s = trial(recorded, address=address, count=0)
        before = counts_of(address)
        took_s = trial(recorded, address=address, count=_CALLS, concurrency=_CEILING, is_adaptive=True) - once_s
        counts = counts_of(address) - before
    return usual_s / took_s, counts["throttled"] / counts["requests"]


FIGURES = (
    Figure(
        name="model-throttled-rate",
        title="rate of 10,000 calls of 50 ms, 32 places, 5 % of 429 and 5 % of 500, limit found by itself, over a bare loop that knows it",
        bound="at least",
        target=0.9,
        form="{:.3f} ×",
        measure=lambda: middle([rate for rate, _ in _outcomes()]),
    ),
    Figure(
        name="model-throttled-share",
        title="calls throttled beyond the injected over all, in the same runs",
        bound="at most",
        target=1.5,
        form="{:.2f} %",
        measure=lambda: middle([100 * share for _, share in _outcomes()]),
    ),
)
