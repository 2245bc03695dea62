"""What is known of a job's steps from before a restart, given back in the order in which it was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from graphmill.engine.program import Step

if TYPE_CHECKING:
    from graphmill.engine.strand import Strand


class Replay:
    """The known outcomes and notes that strands of one job wait for, and the new steps that wait until all of those are told.

    Which of two items failed first decides what became of the other; so it must be the same one again. ``spreads`` counts forks
    that have not yet begun all they can.
    """

    __slots__ = ("_count", "_held", "_known", "is_due", "spreads")

    def __init__(self) -> None:
        self._known: list[tuple[float, int, Strand, Any]] = []
        self._held: list[tuple[Strand, Step]] = []
        self._count = 0
        self.is_due = False
        self.spreads = 0

    @property
    def is_over(self) -> bool:
        """Whether new steps may begin."""
        return not (self._known or self.spreads or self.is_due)

    def put(self, order: float, strand: Strand, known: Any) -> None:
        """Let a strand wait for something known."""
        self._count += 1
        heappush(self._known, (order, self._count, strand, known))

    def take(self) -> tuple[Strand, Any] | None:
        """Give what was recorded first, if all that might come before it is here."""
        return heappop(self._known)[2:] if self._known and not self.spreads else None

    def hold(self, strand: Strand, step: Step) -> None:
        """Let a new step wait."""
        self._held.append((strand, step))

    def release(self) -> Iterator[tuple[Strand, Step]]:
        """Give the new steps that waited and are still wanted."""
        held, self._held = self._held, []
        return ((strand, step) for strand, step in held if not strand.is_dropped)
