"""What a command writes, kept up to a limit."""

from __future__ import annotations

from codecs import getincrementaldecoder

MOST_BYTES = 1_000_000
_END_BYTES = 1_500
_Decoder = getincrementaldecoder("utf-8")


class Capture:
    """The first bytes of a stream, its last ones for a message, and how many there were."""

    __slots__ = ("_end", "_kept", "_size", "_total")

    def __init__(self) -> None:
        self._kept: list[bytes] = []
        self._size = 0
        self._total = 0
        self._end = b""

    def add(self, piece: bytes) -> None:
        """Take what was written next."""
        self._total += len(piece)
        room = MOST_BYTES - self._size
        if room > 0:
            self._kept.append(piece[:room])
            self._size += min(len(piece), room)
        if len(piece) > room:
            self._end = (self._end + piece)[-_END_BYTES:]

    def text(self) -> str:
        """Give it as text, with a mark at its end if some was cut."""
        kept, cut = b"".join(self._kept), self._total - self._size
        if not cut:
            return kept.decode("utf-8", "replace")
        return f"{_Decoder('replace').decode(kept)}\n[cut here: {cut:,} bytes more were written, and {MOST_BYTES:,} are kept]\n"

    def end(self) -> str:
        """Give its last lines, for a message."""
        last = self._end if self._total > self._size else b"".join(self._kept)[-_END_BYTES:]
        if self._total > _END_BYTES:
            last = b"\xe2\x80\xa6" + (last.partition(b"\n")[2] or last)
        return last.decode("utf-8", "replace").strip()
