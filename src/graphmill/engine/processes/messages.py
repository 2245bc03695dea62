"""Messages between the loop and a worker process: a length, a sort, a pickle, over a socket that nobody else holds."""

from __future__ import annotations

from struct import Struct

PIECE_BYTES = 1 << 16
CALL, VALUE, FAILURE = range(3)

_HEADER = Struct("!QB")


def message(sort: int, pickled: bytes) -> bytes:
    """Give a message as it is sent, in one piece: a second send would wake the other side twice."""
    return _HEADER.pack(len(pickled), sort) + pickled


class Incoming:
    """Puts a message together from the pieces that a socket gives. Each side speaks once and then listens, so there is one at a time."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces = bytearray()

    def add(self, piece: bytes) -> tuple[int, memoryview] | None:
        """Give sort and pickle of the message that is now whole, if it is; ConnectionError if there is more than one."""
        if self._pieces:
            self._pieces += piece
            return self._whole(self._pieces)
        whole = self._whole(piece)
        if whole is None:
            self._pieces += piece
        return whole

    def _whole(self, data: bytes | bytearray) -> tuple[int, memoryview] | None:
        if len(data) < _HEADER.size:
            return None
        length, sort = _HEADER.unpack_from(data)
        missing = _HEADER.size + length - len(data)
        if missing > 0:
            return None
        if missing < 0:
            raise ConnectionError("the other side spoke out of turn")
        self._pieces = bytearray()
        return sort, memoryview(data)[_HEADER.size :]
