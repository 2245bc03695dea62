"""How near the adaptive limit comes, on seven simulated servers, to a client that knows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from statistics import median

from benchmarks.figure import Figure, Reading
from benchmarks.servers import SEVEN
from benchmarks.simulation import WARM_UP_S, Fixed, Outcome, simulate
from benchmarks.table import columns
from graphmill.engine.scheduling.adaptive import Controller

CEILING = 256
_SEEDS = range(10)
_KNEE_LIMITS = range(12, 41, 2)
_HEADINGS = ("server", "rate after 60 s", "whole rate", "throttled beyond injected", "settled", "last limit")


def outcome(name: str, seed: int) -> Outcome:
    """Drive a new controller against a new server of this name."""
    return simulate(SEVEN[name](), Controller(ceiling=CEILING), Random(seed))


@cache
def oracle_rate(name: str) -> float:
    """Tell what a client that knows the server gets; where no one can say, the best of many fixed limits."""
    known = SEVEN[name]().oracle_rate
    if known is not None:
        return known
    return max(simulate(SEVEN[name](), Fixed(limit), Random(0)).rate(WARM_UP_S) for limit in _KNEE_LIMITS)


@cache
def _outcomes() -> dict[str, list[Outcome]]:
    return {name: [outcome(name, seed) for seed in _SEEDS] for name in SEVEN}


def _rates(name: str) -> list[float]:
    return [one.rate(WARM_UP_S) / oracle_rate(name) for one in _outcomes()[name]]


def _throttled(name: str) -> list[float]:
    return [100 * one.throttled_share for one in _outcomes()[name]]


def _settled(name: str) -> list[float]:
    return [one.settled_s(oracle_rate(name)) for one in _outcomes()[name]]


def _worst(
    values_of: Callable[[str], list[float]], choose: Callable[[list[float]], float], detail: str = ""
) -> Reading:
    """Judge by the worst seed of the worst server."""
    worst = {name: choose(values_of(name)) for name in SEVEN}
    value = choose(list(worst.values()))
    server = next(name for name in worst if worst[name] == value)
    every = [one for name in SEVEN for one in values_of(name)]
    return Reading(
        value=value,
        lowest=min(every),
        highest=max(every),
        repetitions=len(_SEEDS),
        note=f"{server} is the worst",
        detail=detail,
    )


def _table() -> str:
    return "Adaptive limit, median of ten seeds (worst):\n\n" + columns([_HEADINGS, *(_row(name) for name in SEVEN)])


def _row(name: str) -> tuple[str, ...]:
    def cell(values: Sequence[float], form: str, worst: float) -> str:
        return f"{form.format(median(values))} ({form.format(worst)})"

    rates, throttled, settled = _rates(name), _throttled(name), _settled(name)
    whole = [one.rate() / oracle_rate(name) for one in _outcomes()[name]]
    limits = sorted(one.last_limit for one in _outcomes()[name])
    return (
        name,
        cell(rates, "{:.3f}", min(rates)),
        cell(whole, "{:.3f}", min(whole)),
        cell(throttled, "{:.2f} %", max(throttled)),
        cell(settled, "{:.0f} s", max(settled)),
        f"{limits[0]} – {limits[-1]}",
    )


FIGURES = (
    Figure(
        name="adaptive-rate",
        title="rate under the adaptive limit after 60 s, over the oracle's, worst of seven servers and ten seeds",
        bound="at least",
        target=0.85,
        form="{:.3f} ×",
        measure=lambda: _worst(_rates, min, _table()),
    ),
    Figure(
        name="adaptive-throttled",
        title="calls throttled beyond the injected over the whole run, worst of the same",
        bound="at most",
        target=1.5,
        form="{:.2f} %",
        measure=lambda: _worst(_throttled, max),
    ),
    Figure(
        name="adaptive-settled",
        title="until the following 20 s reach 0.85 of the oracle's rate, worst of the same",
        bound="at most",
        target=60,
        form="{:.0f} s",
        measure=lambda: _worst(_settled, max),
    ),
)
