"""Which parts of a trace are shown: all of a few; of many the first, those that failed, and how many more there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from graphmill.report.trace import Branch

_MOST = (20, 6, 3)  # items or rounds of one node: outside of any other, inside of one, inside of two or more
_FIRST = 3
_MOST_NODES = 100


@dataclass(frozen=True, slots=True)
class Folded:
    """A part of a trace with what is shown of it; ``hidden`` counts by standing what is not."""

    branch: Branch
    children: Sequence[Folded]
    hidden: Counter[str]


def folded(branch: Branch, *, level: int = 0) -> Folded:
    """Choose what is shown of a part; ``level`` says how many items and rounds it is inside of."""
    nodes = [child for child in branch.children if child.place == "node"]
    shown = nodes[:_MOST_NODES] + _chosen(branch.items, level) + _chosen(branch.rounds, level)
    hidden: Counter[str] = Counter(child.standing for child in branch.children)
    hidden.subtract(child.standing for child in shown)
    inner = [folded(child, level=level + (child.place != "node")) for child in shown]
    return Folded(branch, inner, +hidden)


def _chosen(series: Sequence[Branch], level: int) -> list[Branch]:
    most = _MOST[min(level, len(_MOST) - 1)]
    if len(series) <= most:
        return list(series)
    first, rest = series[:_FIRST], series[_FIRST:]
    failed = [branch for branch in rest if branch.standing == "failed"][: most - len(first)]
    return [*first, *failed]
