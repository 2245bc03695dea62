"""A set of small whole numbers, one bit each."""

from __future__ import annotations


class Marks:
    """Which rows were seen."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, number: int) -> bool:
        """Mark a number; tell whether it was not marked before."""
        place, bit = number >> 3, 1 << (number & 7)
        if place >= len(self._bits):
            self._bits.extend(bytes(max(1024, place + 1 - len(self._bits))))
        if self._bits[place] & bit:
            return False
        self._bits[place] |= bit
        return True

    def __contains__(self, number: int) -> bool:
        place = number >> 3
        return place < len(self._bits) and bool(self._bits[place] & 1 << (number & 7))
