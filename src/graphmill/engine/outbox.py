"""Results that wait for the consumer: as completed, or in input order."""

from __future__ import annotations

from collections.abc import Callable

from graphmill.core.result import Result


class Outbox:
    """Holds results until they are taken. Its size is bounded by the window, which counts untaken results.

    ``number_of`` tells which one of the run's jobs a result is of, from 0 on without a gap.

    In input order a result waits for all before it: while the first item is slow the window fills up behind it and
    admission stops, so memory stays bounded and the run waits.
    """

    def __init__(self, number_of: Callable[[Result], int]) -> None:
        self._number_of = number_of
        self._completed: list[Result] = []
        self._waiting: dict[int, Result] = {}
        self._next = 0
        self.is_ordered = False

    def put(self, result: Result) -> bool:
        """Take in a result; tell whether there is something to take out now."""
        if not self.is_ordered:
            self._completed.append(result)
            return True
        number = self._number_of(result)
        self._waiting[number] = result
        return number == self._next

    def take(self) -> list[Result]:
        """Hand out all results whose turn it is."""
        if not self.is_ordered:
            taken, self._completed = self._completed, []
            return taken
        taken = []
        while (result := self._waiting.pop(self._next, None)) is not None:
            taken.append(result)
            self._next += 1
        return taken

    def order(self) -> None:
        """From now on hand out in input order; what has gathered so far is sorted in."""
        self.is_ordered = True
        self._waiting.update((self._number_of(result), result) for result in self._completed)
        self._completed.clear()
