"""What part of a job has taken: time from its first step to its last, and money."""

from __future__ import annotations

from math import inf

from graphmill.core.usage import Usage, added
from graphmill.engine.program import StepEnd


class Meter:
    """Adds up the steps of one item, one loop or one job; all of it is recorded, so that it reads the same after a resume."""

    __slots__ = ("_began_s", "_ended_s", "above", "attempts", "usage")

    def __init__(self, above: Meter | None = None) -> None:
        self.above = above
        self.attempts = 0
        self.usage: Usage | None = None
        self._began_s = inf
        self._ended_s = -inf

    def add(self, end: StepEnd) -> None:
        """Count a step, here and in all that this is a part of."""
        meter: Meter | None = self
        while meter is not None:
            meter._count(end)
            meter = meter.above

    @property
    def began_s(self) -> float:
        """When the first step began."""
        return 0.0 if self._began_s is inf else self._began_s

    @property
    def ended_s(self) -> float:
        """When the last step ended."""
        return 0.0 if self._began_s is inf else self._ended_s

    @property
    def cost_usd(self) -> float:
        """What is known of the cost."""
        return 0.0 if self.usage is None else self.usage.cost_usd or 0.0

    def _count(self, end: StepEnd) -> None:
        self.attempts = max(self.attempts, end.attempts)
        self._began_s = min(self._began_s, end.began_s)
        self._ended_s = max(self._ended_s, end.began_s + end.duration_s)
        self.usage = added(self.usage, end.usage)
