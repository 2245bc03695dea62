"""Statistics of scores: pure functions of numbers, without NumPy.

Every figure is a mean over items of one number for each item; its interval is over items or, where items depend on one
another, over clusters of them. Samples of one item are never counted as if they were items.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

LEVEL = 0.95
RESAMPLES = 1000
MOST_RESAMPLED = 500  # clusters; with more of them a bootstrap and the normal interval are the same
_SEED = 20_260_101


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def wilson_interval(successes: float, trials: int, *, level: float = LEVEL) -> Interval:
    """Return Wilson's score interval of a share; it is never empty, also if all or none succeeded."""
    if trials < 1:
        return Interval(0.0, 1.0)
    z = _deviations(level)
    share, spread = successes / trials, z * z / trials
    centre = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / trials + spread / (4 * trials))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def bootstrap_interval(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, *, level: float = LEVEL, seed: int = _SEED
) -> Interval:
    """Return the percentile bootstrap interval of the mean, over clusters of values or over the values themselves.

    The same values give the same interval. If all clusters are all right, or all wrong, it is Wilson's interval of that
    many trials, since resampling shows no spread then. Above 500 clusters it is the normal interval.
    """
    if not values:
        return Interval(0.0, 1.0)
    sums, sizes = _by_cluster(values, clusters)
    count = len(sums)
    if all(total == 0 for total in sums) or all(total == size for total, size in zip(sums, sizes, strict=True)):
        return wilson_interval(count if sums[0] else 0, count, level=level)
    if count == 1:
        return Interval(0.0, 1.0)
    if count > MOST_RESAMPLED:
        return _normal_interval(sums, sizes, level)
    means = sorted(_resampled_means(sums, sizes, random.Random(seed)))  # noqa: S311  no secret
    return Interval(_quantile(means, (1 - level) / 2), _quantile(means, (1 + level) / 2))


def _by_cluster(values: Sequence[float], clusters: Sequence[Hashable] | None) -> tuple[list[float], list[int]]:
    if clusters is None:
        return list(values), [1] * len(values)
    sums: dict[Hashable, float] = {}
    sizes: Counter[Hashable] = Counter(clusters)
    for cluster, value in zip(clusters, values, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + value
    return list(sums.values()), [sizes[cluster] for cluster in sums]


def _resampled_means(sums: list[float], sizes: list[int], chance: random.Random) -> list[float]:
    count = len(sums)
    if set(sizes) == {1}:
        return [math.fsum(chance.choices(sums, k=count)) / count for _ in range(RESAMPLES)]
    pairs = list(zip(sums, sizes, strict=True))
    means = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(pairs, k=count)
        means.append(math.fsum(total for total, _ in drawn) / sum(size for _, size in drawn))
    return means


def _normal_interval(sums: list[float], sizes: list[int], level: float) -> Interval:
    """Return the mean and its cluster-robust standard error as an interval."""
    count, size = len(sums), sum(sizes)
    mean = math.fsum(sums) / size
    squares = math.fsum((total - mean * own) ** 2 for total, own in zip(sums, sizes, strict=True))
    half = _deviations(level) * math.sqrt(squares * count / (count - 1)) / size
    return Interval(max(0.0, mean - half), min(1.0, mean + half))


def _deviations(level: float) -> float:
    """Return how many standard deviations on both sides hold this share of a normal distribution."""
    from statistics import NormalDist  # noqa: PLC0415  takes 10 ms, which a command without scores need not pay

    return NormalDist().inv_cdf(0.5 + level / 2)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Interpolate between the two nearest values."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


# -- samples of one item


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Return the unbiased chance that one of k samples is right, from ``correct`` right ones among ``samples``."""
    if samples - correct < k:
        return 1.0
    return 1.0 - math.comb(samples - correct, k) / math.comb(samples, k)


def pass_hat_k(samples: int, correct: int, k: int) -> float:
    """Return the chance that all of k samples are right, likewise."""
    return math.comb(correct, k) / math.comb(samples, k)


def majority(answers: Sequence[Hashable | None], is_correct: Sequence[bool]) -> float:
    """Return the chance that the most frequent answer is right; None, for no answer, has no vote.

    All right answers are one, however they are written. Of several equally frequent answers one is taken at random.
    """
    votes: Counter[Hashable] = Counter(
        ("right",) if right else ("wrong", answer)
        for answer, right in zip(answers, is_correct, strict=True)
        if right or answer is not None
    )
    if not votes:
        return 0.0
    most = max(votes.values())
    winners = [answer for answer, count in votes.items() if count == most]
    return winners.count(("right",)) / len(winners)


# -- agreement and calibration


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How well a rater agrees with the truth on ``items``.

    ``kappa`` is Cohen's, None if one of the two says the same of all items. ``false_accept`` is the share that the
    rater accepts of what is wrong, ``false_reject`` the share that it rejects of what is right; None where there is
    nothing wrong, or right.
    """

    items: int
    agreed: float
    kappa: float | None
    false_accept: float | None
    false_reject: float | None


def agreement(rated: Sequence[bool], truth: Sequence[bool]) -> Agreement:
    """Compare what a rater said of each item with the truth."""
    pairs = Counter(zip(rated, truth, strict=True))
    items = len(rated)
    right, wrong = pairs[True, True] + pairs[False, True], pairs[True, False] + pairs[False, False]
    accepted = pairs[True, True] + pairs[True, False]
    agreed = (pairs[True, True] + pairs[False, False]) / items if items else 0.0
    kappa = None
    if items and 0 < right < items and 0 < accepted < items:
        by_chance = (accepted * right + (items - accepted) * wrong) / items**2
        kappa = (agreed - by_chance) / (1 - by_chance)
    return Agreement(
        items=items,
        agreed=agreed,
        kappa=kappa,
        false_accept=pairs[True, False] / wrong if wrong else None,
        false_reject=pairs[False, True] / right if right else None,
    )


class CalibrationBin(NamedTuple):
    """Items whose confidence lies in one tenth: how many, their mean confidence, and the share that is right."""

    low: float
    high: float
    items: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How far stated confidence is from the truth: expected calibration error, Brier score, and the filled bins."""

    items: int
    ece: float
    brier: float
    bins: tuple[CalibrationBin, ...]


def calibration(confidences: Sequence[float], truth: Sequence[bool], *, bins: int = 10) -> Calibration | None:
    """Compare confidences, from 0 to 1, with the truth, in bins of equal width; None if there are none."""
    if not confidences:
        return None
    members: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in zip(confidences, truth, strict=True):
        members.setdefault(min(bins - 1, int(confidence * bins)), []).append((confidence, right))
    found = []
    for number, pairs in sorted(members.items()):
        mean = math.fsum(confidence for confidence, _ in pairs) / len(pairs)
        accuracy = sum(right for _, right in pairs) / len(pairs)
        found.append(CalibrationBin(number / bins, (number + 1) / bins, len(pairs), mean, accuracy))
    items = len(confidences)
    return Calibration(
        items=items,
        ece=math.fsum(each.items * abs(each.accuracy - each.confidence) for each in found) / items,
        brier=math.fsum((each - right) ** 2 for each, right in zip(confidences, truth, strict=True)) / items,
        bins=tuple(found),
    )
