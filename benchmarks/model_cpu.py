"""The CPU of a durable model call, against that of a bare aiohttp loop that stores nothing.

What is sent and answered is recorded too, as it is by default: that is what 2.7 allows, where 2.5 was enough without it.
"""

from __future__ import annotations

from statistics import median

from benchmarks.figure import Figure, Reading, middle
from benchmarks.model_calls import bare, ours
from benchmarks.model_server import model_server
from benchmarks.trial import trial

_CALLS = 2000
_CALL_S = 0.05
_REPETITIONS = 5


def _measure() -> Reading:
    with model_server("steady", _CALL_S) as address:
        asked = {"address": address, "count": _CALLS, "is_cpu": True}
        times = [(trial(bare, **asked), trial(ours, **asked)) for _ in range(_REPETITIONS)]
    usual_us, our_us = (median(column) / _CALLS * 1e6 for column in zip(*times, strict=True))
    note = f"{our_us:.0f} µs a call, the journal's included, over {usual_us:.0f} µs"
    return middle([mine / usual for usual, mine in times], note)


FIGURE = Figure(
    name="model-cpu",
    title="CPU of a durable model call, concurrency 64, over that of a bare aiohttp loop that stores nothing",
    bound="at most",
    target=2.7,
    form="{:.2f} ×",
    measure=_measure,
)
