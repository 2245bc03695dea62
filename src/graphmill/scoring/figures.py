"""The figures of a scored run: how many answers are right, with intervals over items, and what was wrong with the others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from graphmill.core.json import canonical
from graphmill.scoring.score import CORRECT, INFRASTRUCTURE, UNDECIDED, WRONG
from graphmill.scoring.statistics import (
    Interval,
    bootstrap_interval,
    majority,
    pass_at_k,
    pass_hat_k,
    wilson_interval,
)

MOST_LEFT_OUT = 0.01  # a larger share of items without a score makes the figures incomplete


class ScoredSample(msgspec.Struct, frozen=True, kw_only=True):
    """The score of one sample of an item. ``cluster`` holds items that depend on one another."""

    item_id: str
    value: float | None
    outcome: str
    answer: Any = None
    cluster: Hashable = None

    @property
    def is_left_out(self) -> bool:
        """Whether it says nothing about the answer."""
        return self.outcome == INFRASTRUCTURE


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A mean over so many items, and its interval at 95 %."""

    name: str
    value: float
    low: float
    high: float
    items: int

    def __str__(self) -> str:
        return f"{self.name} {self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def to_json(self) -> dict[str, Any]:
        """Return it as data."""
        return {"name": self.name, "value": self.value, "low": self.low, "high": self.high, "items": self.items}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFigures:
    """What one scorer found out about a run.

    ``headline`` is pass@1: the share of right answers or, with several samples, its mean over items; ``mean`` where scores
    are not only 0 and 1. It is None if nothing was scored. What the grader could not decide counts as wrong there, and as
    right in ``upper``. ``outcomes`` counts answers by name, ``left_out`` those without a score: the infrastructure failed.
    ``missing`` are items of the run that have no score yet.
    """

    scorer: str
    run_id: str = ""
    items: int
    samples: int
    outcomes: Mapping[str, int]
    left_out: int
    missing: int = 0
    headline: Figure | None
    upper: float | None = None
    others: Sequence[Figure] = field(default=())

    @property
    def is_complete(self) -> bool:
        """Whether nearly all items have a score."""
        lost = self.left_out + self.missing
        return lost <= MOST_LEFT_OUT * (lost + sum(self.outcomes.values()))

    def __str__(self) -> str:
        if self.headline is None:
            return "nothing scored"
        text = str(self.headline)
        if self.upper is not None:
            text += f", at most {self.upper:.3f}"
        return text if self.is_complete else f"{text}, incomplete"

    def to_json(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "scorer": self.scorer,
            "run": self.run_id,
            "items": self.items,
            "samples": self.samples,
            "is_complete": self.is_complete,
            "headline": None if self.headline is None else self.headline.to_json(),
            "upper": self.upper,
            "outcomes": dict(self.outcomes),
            "left_out": self.left_out,
            "missing": self.missing,
            "figures": [figure.to_json() for figure in self.others],
        }


def figures_of(
    samples: Iterable[ScoredSample], *, scorer: str, run_id: str = "", expected: int | None = None
) -> ScoreFigures:
    """Sum up what a scorer found; ``expected`` is how many samples the run has, scored or not."""
    outcomes: Counter[str] = Counter()
    by_item: dict[str, list[ScoredSample]] = {}
    for sample in samples:
        outcomes[sample.outcome] += 1
        if not sample.is_left_out:
            by_item.setdefault(sample.item_id, []).append(sample)
    left_out = outcomes.pop(INFRASTRUCTURE, 0)
    items = list(by_item.values())
    scored = sum(outcomes.values())
    return ScoreFigures(
        scorer=scorer,
        run_id=run_id,
        items=len(items),
        samples=max(map(len, items), default=0),
        outcomes=dict(sorted(outcomes.items(), key=_order)),
        left_out=left_out,
        missing=0 if expected is None else max(0, expected - scored - left_out),
        headline=_headline(items),
        upper=_upper(items) if outcomes[UNDECIDED] else None,
        others=list(_of_samples(items)),
    )


def _order(outcome: tuple[str, int]) -> tuple[int, int]:
    """Right answers first, then wrong ones, then the rest by number."""
    name, count = outcome
    first = {CORRECT: 0, WRONG: 1}.get(name, 2)
    return first, -count


def _value(sample: ScoredSample) -> float:
    return sample.value or 0.0


def _is_binary(items: Sequence[Sequence[ScoredSample]]) -> bool:
    return all(sample.value in (0, 1, None) for item in items for sample in item)


def _headline(items: Sequence[Sequence[ScoredSample]]) -> Figure | None:
    if not items:
        return None
    name = "pass@1" if _is_binary(items) else "mean"
    return _mean(name, items, lambda item: math.fsum(map(_value, item)) / len(item))


def _upper(items: Sequence[Sequence[ScoredSample]]) -> float:
    means = (math.fsum(1.0 if each.value is None else each.value for each in item) / len(item) for item in items)
    return math.fsum(means) / len(items)


def _mean(
    name: str, items: Sequence[Sequence[ScoredSample]], value_of: Callable[[Sequence[ScoredSample]], float]
) -> Figure:
    """Return the mean over items, with Wilson's interval for a share of independent items."""
    values = [value_of(item) for item in items]
    clusters = [item[0].cluster for item in items]
    is_share = all(value in (0, 1) for value in values)
    if any(cluster is not None for cluster in clusters):
        interval = bootstrap_interval(values, clusters)
    elif is_share:
        interval = wilson_interval(sum(values), len(values))
    else:
        interval = bootstrap_interval(values)
    return _figure(name, values, interval)


def _figure(name: str, values: Sequence[float], interval: Interval) -> Figure:
    mean = math.fsum(values) / len(values)
    return Figure(name=name, value=mean, low=interval.low, high=interval.high, items=len(values))


def _of_samples(items: Sequence[Sequence[ScoredSample]]) -> Iterator[Figure]:
    """Return what several samples of each item tell: the most frequent answer, at least one right of k, all right of k."""
    most = max(map(len, items), default=0)
    if most < 2 or not _is_binary(items):
        return
    full = [item for item in items if len(item) == most]
    yield _mean(f"maj@{most}", full, _majority)
    for k in _ks(most):
        enough = [item for item in items if len(item) >= k]
        yield _mean(f"pass@{k}", enough, partial(_chance, pass_at_k, k))
        yield _mean(f"pass^{k}", enough, partial(_chance, pass_hat_k, k))


def _ks(most: int) -> list[int]:
    powers = [2**exponent for exponent in range(1, most.bit_length()) if 2**exponent < most]
    return [*powers, most]


def _chance(of: Callable[[int, int, int], float], k: int, item: Sequence[ScoredSample]) -> float:
    return of(len(item), _right(item), k)


def _right(item: Sequence[ScoredSample]) -> int:
    return sum(sample.value == 1 for sample in item)


def _majority(item: Sequence[ScoredSample]) -> float:
    answers = [None if sample.answer is None else canonical(sample.answer) for sample in item]
    return majority(answers, [sample.value == 1 for sample in item])
