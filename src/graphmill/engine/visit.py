"""A visit: a call from inside of an attempt, in the lane of what it depends on, while its job keeps its slot."""

from __future__ import annotations

from asyncio import Future
from itertools import count

from graphmill.engine.lane import Lane
from graphmill.engine.ticket import Ticket

_positions = count(-(2**61))


class Visit(Ticket):
    """A ticket for one call in a lane that is not its job's, in the rank of that job; ``entered`` is done when it is let in."""

    __slots__ = ("_weight", "entered", "host")

    def __init__(self, host: Ticket, lane: Lane, weight: int) -> None:
        super().__init__(host.job, lane, host.rules, position=next(_positions), rank=host.rank, now=host.admitted_at)
        self.host = host
        self.entered: Future[None] | None = None
        self._weight = weight

    @property
    def is_call(self) -> bool:
        """Counted."""
        return True

    @property
    def weight(self) -> int:
        """How many tokens the call may take."""
        return self._weight
