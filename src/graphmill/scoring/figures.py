"""The figures of a scored run: right answers with intervals over items, and what was wrong with the rest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import combinations, groupby
from typing import Any

import msgspec

from graphmill.core.json import canonical
from graphmill.core.usage import Usage
from graphmill.scoring.score import CORRECT, LEFT_OUT, UNDECIDED, WRONG
from graphmill.scoring.statistics import (
    Agreement,
    Calibration,
    agreement,
    bootstrap_interval,
    calibration,
    majority,
    pass_at_k,
    pass_hat_k,
    wilson_interval,
)

MOST_LEFT_OUT = 0.01  # a larger share of items without a score makes the figures incomplete
TRUTH = "truth"
_NO_USAGE: Mapping[str, Usage] = {}
ACCEPTED = 0.5  # from this score on a judge accepts an answer


class ScoredSample(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The score of one sample of an item, and what else is known of it.

    ``fields`` are the item's values of the fields by which figures are wanted, ``cluster`` names items that depend on
    one another. ``ratings`` say who else accepted the answer, ``confidence`` how sure its author was.
    """

    item_id: str
    value: float | None
    outcome: str
    answer: Any = None
    fields: tuple[Any, ...] = ()
    cluster: Hashable = None
    ratings: Mapping[str, bool] = {}
    confidence: float | None = None
    is_resampled: bool = False

    @property
    def is_left_out(self) -> bool:
        """Whether it says nothing about the answer."""
        return self.outcome in LEFT_OUT

    @property
    def is_right(self) -> bool:
        """Whether the answer is right."""
        return self.value == 1


Item = Sequence[ScoredSample]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigure:
    """The headline of the items that have this value in this field."""

    field: str
    value: Any
    figure: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterAgreement:
    """How well one rater of the answers agrees with another, or with the truth."""

    rater: str
    other: str
    agreement: Agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFigures:
    """What one scorer found out about a run.

    ``headline`` is pass@1: the share of right answers or, with several samples, its mean over items; ``mean`` where
    scores are not only 0 and 1. It is None if nothing was scored. What the grader could not decide counts as wrong
    there, and as right in ``upper``. ``outcomes`` counts answers by name, ``left_out`` those without a score: the
    infrastructure or the scorer failed. ``missing`` are those that have no score yet, or an old one; ``resampled``
    those that were answered again because the first answer was refused, cut or unfitting.

    ``figures`` are those of several samples, ``groups`` the headline by the fields that were asked for. ``agreements``
    compare the verifier, the judge and other scorers with this one; ``calibration`` stated confidence with it.
    ``usage`` is by model what the scorer itself has used.
    """

    scorer: str
    run_id: str = ""
    items: int
    samples: int
    outcomes: Mapping[str, int]
    left_out: Mapping[str, int]
    missing: int = 0
    resampled: int = 0
    headline: Figure | None
    upper: float | None = None
    figures: Sequence[Figure] = ()
    groups: Sequence[GroupFigure] = ()
    agreements: Sequence[RaterAgreement] = ()
    calibration: Calibration | None = None
    usage: Mapping[str, Usage] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether nearly all items have a score."""
        lost = sum(self.left_out.values()) + self.missing
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
        usage = {model: used.to_json() for model, used in self.usage.items()}
        return asdict(replace(self, usage={})) | {"is_complete": self.is_complete, "usage": usage}


def figures_of(
    samples: Iterable[ScoredSample],
    *,
    scorer: str,
    run_id: str = "",
    missing: int = 0,
    by: Sequence[str] = (),
    usage: Mapping[str, Usage] = _NO_USAGE,
) -> ScoreFigures:
    """Sum up what a scorer found; all samples of an item follow one another. ``by`` names the fields that each has."""
    outcomes: Counter[str] = Counter()
    items: list[Item] = []
    resampled = 0
    for item in _items(samples):
        outcomes.update(sample.outcome for sample in item)
        resampled += sum(sample.is_resampled for sample in item)
        if scored := _scored(item):
            items.append(scored)
    left_out = {name: outcomes.pop(name) for name in sorted(LEFT_OUT) if outcomes[name]}
    return ScoreFigures(
        scorer=scorer,
        run_id=run_id,
        items=len(items),
        samples=max(map(len, items), default=0),
        outcomes=dict(sorted(outcomes.items(), key=_order)),
        left_out=left_out,
        missing=missing,
        resampled=resampled,
        headline=_headline(items) if items else None,
        upper=_upper(items) if outcomes[UNDECIDED] else None,
        figures=tuple(_of_samples(items)),
        groups=tuple(_groups(items, by)),
        agreements=tuple(_agreements(items)),
        calibration=_calibration(items),
        usage=usage,
    )


def headline_of(samples: Iterable[ScoredSample]) -> Figure | None:
    """Return the headline alone; None if nothing was scored."""
    items = [scored for item in _items(samples) if (scored := _scored(item))]
    return _headline(items) if items else None


def _items(samples: Iterable[ScoredSample]) -> Iterator[Item]:
    return (tuple(group) for _, group in groupby(samples, key=lambda sample: sample.item_id))


def _scored(item: Item) -> Item:
    return tuple(sample for sample in item if not sample.is_left_out)


def _order(outcome: tuple[str, int]) -> tuple[int, int]:
    """Right answers first, then wrong ones, then the rest by number."""
    name, count = outcome
    return {CORRECT: 0, WRONG: 1}.get(name, 2), -count


def _is_binary(items: Sequence[Item]) -> bool:
    return all(sample.value in (0, 1, None) for item in items for sample in item)


def _headline(items: Sequence[Item]) -> Figure:
    return _mean("pass@1" if _is_binary(items) else "mean", items, _mean_value)


def _mean_value(item: Item) -> float:
    return math.fsum(sample.value or 0.0 for sample in item) / len(item)


def _upper(items: Sequence[Item]) -> float:
    means = (math.fsum(1.0 if each.value is None else each.value for each in item) / len(item) for item in items)
    return math.fsum(means) / len(items)


def _mean(name: str, items: Sequence[Item], value_of: Callable[[Item], float]) -> Figure:
    """Return the mean over items; its interval is Wilson's for a share of independent items, else a bootstrap."""
    values = [value_of(item) for item in items]
    clusters = [item[0].cluster for item in items]
    if any(cluster is not None for cluster in clusters):
        interval = bootstrap_interval(values, clusters)
    elif all(value in (0, 1) for value in values):
        interval = wilson_interval(sum(values), len(values))
    else:
        interval = bootstrap_interval(values)
    mean = math.fsum(values) / len(values)
    return Figure(name=name, value=mean, low=interval.low, high=interval.high, items=len(values))


def _of_samples(items: Sequence[Item]) -> Iterator[Figure]:
    """Return what several samples of each item tell: maj@N, pass@k and pass^k."""
    most = max(map(len, items), default=0)
    if most < 2 or not _is_binary(items):
        return
    yield _mean(f"maj@{most}", [item for item in items if len(item) == most], _majority)
    for k in _ks(most):
        enough = [item for item in items if len(item) >= k]
        yield _mean(f"pass@{k}", enough, partial(_chance, pass_at_k, k))
        yield _mean(f"pass^{k}", enough, partial(_chance, pass_hat_k, k))


def _ks(most: int) -> list[int]:
    powers = [2**exponent for exponent in range(1, most.bit_length()) if 2**exponent < most]
    return [*powers, most]


def _chance(of: Callable[[int, int, int], float], k: int, item: Item) -> float:
    return of(len(item), sum(sample.is_right for sample in item), k)


def _majority(item: Item) -> float:
    answers = [None if sample.answer is None else canonical(sample.answer) for sample in item]
    return majority(answers, [sample.is_right for sample in item])


def _groups(items: Sequence[Item], by: Sequence[str]) -> Iterator[GroupFigure]:
    for at, name in enumerate(by):
        found: dict[bytes, list[Item]] = {}
        for item in items:
            found.setdefault(canonical(item[0].fields[at]), []).append(item)
        groups = [(members[0][0].fields[at], members) for members in found.values()]
        for value, members in sorted(groups, key=lambda group: _place(group[0])):
            yield GroupFigure(field=name, value=value, figure=_headline(members))


def _place(value: Any) -> tuple[bool, float, str]:
    """Sort numbers by size, then texts, and what has no value last."""
    if isinstance(value, int | float):
        return False, value, ""
    return value is None, math.inf, str(value)


def _agreements(items: Sequence[Item]) -> Iterator[RaterAgreement]:
    samples = [sample for item in items for sample in item]
    raters = list(dict.fromkeys(name for sample in samples for name in sample.ratings))
    for rater in raters:
        rated = [sample for sample in samples if rater in sample.ratings]
        truth = [sample.is_right for sample in rated]
        yield RaterAgreement(
            rater=rater, other=TRUTH, agreement=agreement([sample.ratings[rater] for sample in rated], truth)
        )
    for one, other in combinations(raters, 2):
        both = [sample.ratings for sample in samples if one in sample.ratings and other in sample.ratings]
        if both:
            found = agreement([ratings[one] for ratings in both], [ratings[other] for ratings in both])
            yield RaterAgreement(rater=one, other=other, agreement=found)


def _calibration(items: Sequence[Item]) -> Calibration | None:
    stated = [
        (sample.confidence, sample.is_right) for item in items for sample in item if sample.confidence is not None
    ]
    return calibration([confidence for confidence, _ in stated], [right for _, right in stated])
