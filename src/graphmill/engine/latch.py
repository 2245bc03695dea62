"""A switch with two marks, so that a figure which trembles at one of them does not flip it."""

from __future__ import annotations

import math


class Latch:
    """On once a figure is above ``high`` (None: never), off again only when it is below the ``low_share`` of that."""

    __slots__ = ("high", "is_on", "low")

    def __init__(self, high: float | None, *, low_share: float) -> None:
        self.high = math.inf if high is None else high
        self.low = low_share * self.high
        self.is_on = False

    def feed(self, figure: float) -> bool:
        """Take the newest figure; tell whether the latch went on by it."""
        was_on = self.is_on
        self.is_on = figure > self.high or (was_on and figure >= self.low)
        return self.is_on and not was_on
