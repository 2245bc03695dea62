"""The rate of durable model calls, against a bare aiohttp loop that stores nothing."""

from __future__ import annotations

from statistics import median

from benchmarks.figure import Figure, Reading, middle
from benchmarks.model_calls import CONCURRENCY, bare, ours, recorded
from benchmarks.model_server import model_server
from benchmarks.trial import trial

_CALLS = 2000
_CALL_S = 0.05
_REPETITIONS = 5


def _measure() -> Reading:
    with model_server("steady", _CALL_S) as address:
        times = [
            (trial(bare, address=address, count=_CALLS), trial(ours, address=address, count=_CALLS))
            for _ in range(_REPETITIONS)
        ]
        once_s = median(trial(recorded, address=address, count=0) for _ in range(_REPETITIONS))
    per_s = _CALLS / median(mine for _, mine in times)
    possible = CONCURRENCY / _CALL_S
    note = f"{per_s:,.0f} calls a second of {possible:,.0f} possible; {once_s:.2f} s once to make and close the journal (not counted)"
    return middle([usual / mine for usual, mine in times], note)


FIGURE = Figure(
    name="model-rate",
    title="rate of 2,000 durable model calls of 50 ms, concurrency 64, over a bare aiohttp loop that stores nothing",
    bound="at least",
    target=0.95,
    form="{:.3f} ×",
    measure=_measure,
)
