"""Time that has passed in spans, of which several may lie over each other."""

from __future__ import annotations


class Spans:
    """Adds up spans of time, what overlaps once; they come in the order of their ends."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []

    def add(self, began_s: float, ended_s: float) -> None:
        """Count a span."""
        while self._spans and self._spans[-1][1] >= began_s:
            began, ended = self._spans.pop()
            began_s, ended_s = min(began_s, began), max(ended_s, ended)
        self._spans.append((began_s, ended_s))

    @property
    def total_s(self) -> float:
        """How long they are together."""
        return sum(ended - began for began, ended in self._spans)
