"""How many pairs of answers the math grader compares in a second, with warm worker processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require
from graphmill.scoring.scorer import Scorer, find_scorer

_PAIRS = 500
_PROCESSES = 2
_REPETITIONS = 3

# Reference answer, an equal answer, and one that differs; {a}, {b} and {c} are other numbers in every pair.
_FORMS = (
    ("{a}", "{a}.0", "{b}"),
    (r"\frac{{{a}}}{{{c}}}", r"\dfrac{{{a}}}{{{c}}}", r"\frac{{{c}}}{{{b}}}"),
    (r"\sqrt{{{a}}}", r"{a}^{{\frac{{1}}{{2}}}}", r"\sqrt{{{b}}}"),
    (r"\frac{{{a}\sqrt{{2}}}}{{{c}}}", r"\frac{{{a}}}{{{c}}}\cdot\sqrt2", r"\frac{{{b}\sqrt{{2}}}}{{{c}}}"),
    (r"({a}, {c})", r"\left( {a}, {c} \right)", r"({c}, {a})"),
    ("{a}x^2 + {c}x", "x({a}x+{c})", "{a}x^2 - {c}x"),
    (r"{a} + {c}i", r"{c}i + {a}", r"{a} - {c}i"),
    ("y = {a}x + {c}", "{a}x - y + {c} = 0", "y = {c}x + {a}"),
    (r"\frac{{{a}\pi}}{{{c}}}", r"{a}\pi / {c}", r"\frac{{{b}\pi}}{{{c}}}"),
    (r"(-\infty, {a}] \cup ({b}, \infty)", r"(-\infty,{a}]\cup({b},\infty)", r"(-\infty, {a}) \cup ({b}, \infty)"),
)


def _pairs(since: int) -> Iterator[tuple[str, str, float]]:
    """Make pairs that were not there before: half of them equal."""
    for number in range(since, since + _PAIRS):
        gold, equal, other = (
            form.format(a=2 * number + 3, b=2 * number + 7, c=number + 11) for form in _FORMS[number % len(_FORMS)]
        )
        is_equal = number // len(_FORMS) % 2 == 0
        yield gold, rf"We find that \boxed{{{equal if is_equal else other}}}.", float(is_equal)


def _rate(scorer: Scorer, since: int) -> float:
    pairs = list(_pairs(since))
    began = time.perf_counter()
    with ThreadPoolExecutor(_PROCESSES) as threads:
        right = sum(threads.map(lambda pair: scorer.call(pair[1], pair[0]).value == pair[2], pairs))
    took = time.perf_counter() - began
    require(_PAIRS, right)
    return _PAIRS / took


def _measure() -> Reading:
    scorer = find_scorer("math")
    try:
        first = _rate(scorer, 0)
        rates = [_rate(scorer, _PAIRS * (number + 1)) for number in range(_REPETITIONS)]
    finally:
        asyncio.run(scorer.close())
    return middle(rates, f"{_PROCESSES} processes; the first {_PAIRS} pairs, with their start, at {first:.0f} a second")


FIGURE = Figure(
    name="math-pairs",
    title="pairs of mathematical answers compared in a second, warm worker processes",
    bound="at least",
    target=60,
    form="{:.0f}",
    measure=_measure,
)
