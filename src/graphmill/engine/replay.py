"""What is known of a job's steps from before a restart, given back in the order in which it was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from graphmill.engine.program import Fork, Step, StepEnd
from graphmill.engine.spans import Spans

if TYPE_CHECKING:
    from graphmill.engine.strand import Strand


class Replay:
    """The known outcomes and notes that strands of one job wait for, and the new steps that wait until all of those are told.

    Which of two items failed first decides what became of the other; so it must be the same one again. ``spreads`` counts forks
    that have not yet begun all they can. What was recorded before ``since`` is of earlier generations: its time does not count.
    """

    __slots__ = ("_count", "_held", "_known", "_since", "_timed", "is_due", "spreads")

    def __init__(self, since: int = 0) -> None:
        self._since = since
        self._timed: dict[Strand, tuple[Fork, Spans]] = {}
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
        if not self._known or self.spreads:
            return None
        order, _, strand, known = heappop(self._known)
        if self._timed and order >= self._since and isinstance(known, StepEnd):
            self._spend(strand, known)
        return strand, known

    def time(self, strand: Strand, fork: Fork) -> None:
        """Count the time that a fork has used up already; it does not run on before the replay is over."""
        self._timed[strand] = (fork, Spans())

    def timed(self) -> list[tuple[Strand, Fork, float]]:
        """Give the forks that are not over, each with the time it has left."""
        timed, self._timed = self._timed, {}
        open_ones = [
            (strand, fork, spans)
            for strand, (fork, spans) in timed.items()
            if strand.fork is fork and not strand.is_dropped
        ]
        return [(strand, fork, (fork.timeout_s or 0.0) - spans.total_s) for strand, fork, spans in open_ones]

    def _spend(self, strand: Strand, end: StepEnd) -> None:
        above: Strand | None = strand.up
        while above is not None:
            if above in self._timed:
                self._timed[above][1].add(end.began_s, end.began_s + end.duration_s)
            above = above.up

    def hold(self, strand: Strand, step: Step) -> None:
        """Let a new step wait."""
        self._held.append((strand, step))

    def release(self) -> Iterator[tuple[Strand, Step]]:
        """Give the new steps that waited and are still wanted."""
        held, self._held = self._held, []
        return ((strand, step) for strand, step in held if not strand.is_dropped)
