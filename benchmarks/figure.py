"""A figure: what is measured, what it should be, and what it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal


class NotMeasuredError(Exception):
    """Raised by ``measure`` where what is compared against can not be had on this machine; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one figure came to: the value judged, the lowest and highest repetition, and what a reader should know.

    A value of None was not measured. ``detail`` is a table of its own, shown below that of all figures.
    """

    value: float | None
    lowest: float
    highest: float
    repetitions: int
    note: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table. ``measure`` takes a while. A figure without a target is informative."""

    name: str
    title: str
    bound: Literal["at most", "at least"]
    target: float | None
    form: str
    measure: Callable[[], Reading]

    def is_reached(self, reading: Reading) -> bool:
        """Whether the value is on the right side of the target; one that was not measured is not."""
        if self.target is None:
            return True
        if reading.value is None:
            return False
        return reading.value <= self.target if self.bound == "at most" else reading.value >= self.target

    def render(self, value: float | None) -> str:
        """Write a value with the figure's unit."""
        return "–" if value is None else self.form.format(value)

    def render_target(self) -> str:
        """Write the target with its direction."""
        if self.target is None:
            return "informative"
        return f"{'≤' if self.bound == 'at most' else '≥'} {self.render(self.target)}"


def middle(values: Sequence[float], note: str = "") -> Reading:
    """Judge repetitions by their median."""
    return Reading(value=median(values), lowest=min(values), highest=max(values), repetitions=len(values), note=note)


def not_measured(reason: str) -> Reading:
    """Give the reading of a figure for which there is none; the reason becomes one line, as a cell of a table is."""
    line = " ".join(reason.replace("|", "/").split())
    return Reading(value=None, lowest=0, highest=0, repetitions=0, note=f"not measured: {line}")
