"""A body without its content encodings, as it streams in; never larger than is allowed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from graphmill.core.errors import AttemptError, Permanent, Transient

if TYPE_CHECKING:
    from aiohttp import StreamReader

ACCEPTED = "gzip, deflate"
_AT_ONCE = 1 << 20
_GZIP, _ZLIB, _RAW = 31, 15, -15


class UnknownEncodingError(ValueError):
    """A body is encoded as nobody has asked for."""


class Decoder:
    """Takes the pieces of one body; Permanent if it comes to more than ``most`` bytes, Transient if it is cut or damaged.

    ``limit`` is what its author calls that most, if there is one who has set it.
    """

    def __init__(self, encoding: str, most: int, *, limit: str = "") -> None:
        self._name = _coding(encoding) if encoding else ""
        self._most = most
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._inflater: zlib._Decompress | None = None

    def expect(self, size: int | None) -> None:
        """Refuse a body at once that is said to be larger than is allowed; None where nothing is said."""
        if size is not None and size > self._most:
            raise Permanent(
                f"the answer is larger than {f'{self._limit}, ' if self._limit else ''}{self._most:,} bytes"
            )

    def feed(self, piece: bytes) -> Iterator[None]:
        """Take a piece; each turn is a bounded amount of work, between which others may have theirs."""
        if not self._name:
            self._take(piece)
            return
        is_more = bool(piece)
        while is_more:
            inflater = self._inflater = self._inflater or self._new(piece)
            try:
                made = inflater.decompress(piece, _AT_ONCE)
            except zlib.error as error:
                raise Transient(f"the answer is no whole {self._name}: {error}") from None
            self._take(made)
            piece = inflater.unconsumed_tail or inflater.unused_data
            is_more = bool(piece) or (len(made) == _AT_ONCE and not inflater.eof)
            if inflater.eof:
                self._inflater = None
            yield

    def whole(self) -> bytes:
        """Give the body, at its end."""
        if self._inflater is not None:
            raise Transient(f"the answer was cut: its {self._name} does not end")
        return self.so_far

    @property
    def so_far(self) -> bytes:
        """What has been decoded, be it whole or not."""
        return b"".join(self._parts)

    def _new(self, piece: bytes) -> zlib._Decompress:
        if self._name != "deflate":
            return zlib.decompressobj(_GZIP)
        is_wrapped = piece[0] & 15 == 8 and (len(piece) < 2 or (piece[0] * 256 + piece[1]) % 31 == 0)
        return zlib.decompressobj(_ZLIB if is_wrapped else _RAW)

    def _take(self, decoded: bytes) -> None:
        self._parts.append(decoded[: max(0, self._most - self._size)])  # of what is too large, its head
        self._size += len(decoded)
        self.expect(self._size)


def _coding(encoding: str) -> str:
    named = [name for each in encoding.split(",") if (name := each.strip().lower()) not in ("", "identity")]
    if len(named) > 1 or not set(named) <= {"gzip", "x-gzip", "deflate"}:
        raise UnknownEncodingError(f"the answer is encoded as {encoding!r:.40}")
    return named[0] if named else ""


async def read_whole(content: StreamReader, decoder: Decoder) -> bytes:
    """Read a body to its end."""
    while not content.at_eof():
        for _ in decoder.feed(content.read_nowait() if content.is_eof() else await content.readany()):
            await asyncio.sleep(0)
    if (error := content.exception()) is not None:
        raise error
    return decoder.whole()


async def read_beginning(content: StreamReader, encoding: str, most: int, *, until: float | None = None) -> bytes:
    """Read a body that only explains what the status says, as far as it tells something: the status stands whatever becomes of it.

    ``until`` is when it is waited for no longer. Where not all is read, the connection is not used again.
    """
    from aiohttp import ClientError  # noqa: PLC0415

    try:
        decoder = Decoder(encoding, most)
    except UnknownEncodingError:
        return b""
    with suppress(AttemptError, ClientError, OSError):
        async with asyncio.timeout_at(until):
            await read_whole(content, decoder)
    return decoder.so_far
