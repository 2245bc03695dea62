"""Reading response bodies: decompressed as they stream in, never larger than allowed, never cut off unnoticed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from graphmill.http.faults import HttpError, ResponseTooLargeError, UnknownEncodingError

if TYPE_CHECKING:
    from aiohttp import StreamReader

ACCEPTED = "gzip, deflate"
_STEP_BYTES = 1 << 20
_GZIP, _ZLIB, _RAW = 31, 15, -15


class Decoder:
    """Decompresses one body, piece by piece.

    Raises ResponseTooLargeError above ``max_bytes``, UnknownEncodingError for anything but gzip and deflate, and
    HttpError if the body is damaged or cut off.
    """

    def __init__(self, encoding: str, max_bytes: int) -> None:
        self._coding = _parse_encoding(encoding)
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._inflater: Any = None

    def check_size(self, size: int) -> None:
        """Refuse a body that has, or announces, more bytes than allowed."""
        if size > self._max_bytes:
            raise ResponseTooLargeError(f"response is larger than {self._max_bytes:,} bytes")

    def feed(self, piece: bytes) -> Iterator[None]:
        """Take a piece; yields after each bounded amount of work, so that the caller can let others run."""
        if not self._coding:
            self._take(piece)
            return
        is_more = bool(piece)
        while is_more:
            if self._inflater is None:
                self._inflater = self._new_inflater(piece)
            inflater = self._inflater
            try:
                made = inflater.decompress(piece, _STEP_BYTES)
            except zlib.error as error:
                raise HttpError(f"response is not valid {self._coding}: {error}") from None
            self._take(made)
            piece = inflater.unconsumed_tail or inflater.unused_data
            is_more = bool(piece) or (len(made) == _STEP_BYTES and not inflater.eof)
            if inflater.eof:
                self._inflater = None
            yield

    def finish(self) -> bytes:
        """Return the whole body."""
        if self._inflater is not None:
            raise HttpError(f"response was cut off: its {self._coding} data does not end")
        return self.so_far

    @property
    def so_far(self) -> bytes:
        """The bytes decoded so far."""
        return b"".join(self._parts)

    def _new_inflater(self, piece: bytes) -> Any:
        if self._coding != "deflate":
            return zlib.decompressobj(_GZIP)
        is_wrapped = piece[0] & 15 == 8 and (len(piece) < 2 or (piece[0] * 256 + piece[1]) % 31 == 0)
        return zlib.decompressobj(_ZLIB if is_wrapped else _RAW)

    def _take(self, decoded: bytes) -> None:
        self._parts.append(decoded[: max(0, self._max_bytes - self._size)])
        self._size += len(decoded)
        self.check_size(self._size)


@lru_cache(maxsize=64)
def _parse_encoding(header: str) -> str:
    names = [name for each in header.split(",") if (name := each.strip().lower()) not in ("", "identity")]
    if not names:
        return ""
    if len(names) > 1 or names[0] not in ("gzip", "x-gzip", "deflate"):
        raise UnknownEncodingError(f"response has the content encoding {header!r:.40}; only {ACCEPTED} is supported")
    return names[0]


async def read_whole(content: StreamReader, decoder: Decoder) -> bytes:
    """Read a body to its end."""
    while not content.at_eof():
        piece = content.read_nowait() if content.is_eof() else await content.readany()
        for _ in decoder.feed(piece):
            await asyncio.sleep(0)
    if (error := content.exception()) is not None:
        raise error
    return decoder.finish()


async def read_beginning(content: StreamReader, encoding: str, max_bytes: int, *, until: float | None = None) -> bytes:
    """Read what can be read of an error's body, until a moment of the loop's clock; never raises for the body."""
    from aiohttp import ClientError  # noqa: PLC0415

    try:
        decoder = Decoder(encoding, max_bytes)
    except UnknownEncodingError:
        return b""
    with suppress(HttpError, ClientError, OSError):
        async with asyncio.timeout_at(until):
            await read_whole(content, decoder)
    return decoder.so_far
