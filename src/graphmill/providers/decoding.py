"""A body without its content encoding, as it streams in, and never larger than is allowed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from graphmill.core.errors import Permanent, Transient

ACCEPTED = "gzip"
_AT_ONCE = 1 << 20
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class Decoder:
    """Takes the pieces of one body; Permanent if it comes to more than ``most`` bytes, Transient if it is cut or damaged."""

    def __init__(self, encoding: str, most: int) -> None:
        name = encoding.strip().lower()
        if name not in ("", "identity", *_WINDOWS):
            raise Transient(f"the answer is encoded as {name!r:.40}, though only {ACCEPTED} was allowed")
        self._inflater = zlib.decompressobj(_WINDOWS[name]) if name in _WINDOWS else None
        self._most = most
        self._parts: list[bytes] = []
        self.size = 0

    def feed(self, piece: bytes) -> Iterator[None]:
        """Take a piece; each turn is a bounded amount of work, between which others may have theirs."""
        if self._inflater is None:
            self._take(piece)
            return
        while piece and not self._inflater.eof:
            try:
                self._take(self._inflater.decompress(piece, _AT_ONCE))
            except zlib.error as error:
                raise Transient(f"the answer is damaged: {error}") from None
            piece = self._inflater.unconsumed_tail
            yield

    def whole(self) -> bytes:
        """Give the body, at its end."""
        if self._inflater is not None and self.size and not self._inflater.eof:
            raise Transient("the answer was cut: its compressed data do not end")
        return b"".join(self._parts)

    def part(self) -> bytes:
        """Give what has come so far."""
        return b"".join(self._parts)

    def _take(self, decoded: bytes) -> None:
        self.size += len(decoded)
        if self.size > self._most:
            raise Permanent(f"the answer is larger than {self._most:,} bytes")
        self._parts.append(decoded)
