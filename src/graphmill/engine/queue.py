"""The jobs that wait for a slot: one heap, one static rank."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from graphmill.engine.ticket import Ticket

PRIORITY_S = 60.0


def rank(*, admitted_at: float, priority: int) -> float:
    """Give a job's rank: smallest first. One step of priority is worth a minute of waiting, so nothing starves."""
    return admitted_at - PRIORITY_S * priority


T = TypeVar("T", bound=Ticket)


class ReadyQueue(Generic[T]):
    """Tickets by rank, then by position. A retry carries its job's old rank, and so overtakes unstarted work."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[T]:
        return (ticket for _, _, ticket in self._heap)

    @property
    def first(self) -> T | None:
        """The ticket whose turn it is, if there is one."""
        return self._heap[0][2] if self._heap else None

    def is_first(self, rank: float, position: int) -> bool:
        """Tell whether the ticket whose turn it is has this rank and position."""
        return bool(self._heap) and self._heap[0][1] == position and self._heap[0][0] == rank

    def is_behind(self, ticket: Ticket) -> bool:
        """Tell whether all that waits has its turn after this."""
        return not self._heap or (ticket.rank, ticket.position) < self._heap[0][:2]

    def push(self, ticket: T) -> None:
        """Let a ticket wait for a slot."""
        heappush(self._heap, (ticket.rank, ticket.position, ticket))

    def pop(self) -> T:
        """Take the ticket whose turn it is."""
        return heappop(self._heap)[2]

    def remove(self, ticket: T) -> None:
        """Take out one ticket, wherever it stands."""
        self._heap.remove((ticket.rank, ticket.position, ticket))
        heapify(self._heap)

    def clear(self) -> None:
        """Take out all tickets."""
        self._heap.clear()
