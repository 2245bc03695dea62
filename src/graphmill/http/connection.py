"""HTTP client for nodes and model providers: sends one request, reads the whole response.

It is ``aiohttp.ClientSession`` with three of its habits removed:

- A GET, PUT or DELETE that meets a dropped connection is sent again. Here a request is sent once.
- Bytes that a server sends unasked become the response to the next request. Here such a connection is closed.
- A compressed body that was cut off counts as whole. Here it is an error, see ``Decoder``.
"""

from __future__ import annotations

import asyncio
import re
import select
import socket
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import msgspec

from graphmill.http.faults import (
    BlockedSocketError,
    HttpError,
    InvalidRequestError,
    ResponseTooLargeError,
    UnknownEncodingError,
    translate_error,
)

if TYPE_CHECKING:
    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse, ClientTimeout, StreamReader
    from yarl import URL


ACCEPTED = "gzip, deflate"
_DECODED_BYTES = 1 << 20
_GZIP, _ZLIB, _RAW = 31, 15, -15
_CONNECT_S = 10.0
_CONNECT_SHARE = 0.9  # of the caller's time limit, so that a failed connection is reported as one
_ERROR_BODY_SHARE = 0.95  # likewise, so that the status of an error is reported even if its body never ends
_KEEP_ALIVE_S = 4.0  # many servers hang up after 5 s; whether they read a request sent at that moment nobody knows
_MAX_IDLE = 100  # each is an open file, and a process may have few
_MAX_HEADER_BYTES = 32 * 1024
_MAX_ERROR_BODY_BYTES = 64 * 1024
_STREAMED_BYTES = 1 << 20  # larger bodies are sent piece by piece, so that the loop can do other work in between
_HEADERS = {"accept-encoding": ACCEPTED, "user-agent": "graphmill"}
_NOT_IN_A_URL = re.compile(r"[\x00-\x20\x7f]")


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A whole response; header names are in lower case.

    ``is_empty`` says that no body was announced, ``is_good`` that the status is 2xx or one that the caller accepts.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_empty: bool
    is_good: bool


class HttpClient:
    """Sends requests over keep-alive connections; made on the loop that uses it. No redirects, cookies or proxies.

    ``is_allowed`` decides about each address as it is connected to, when no name server can change it any more.
    """

    def __init__(self, *, is_allowed: Callable[[str], bool] | None = None, connect_s: float = _CONNECT_S) -> None:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar  # noqa: PLC0415

        def open_socket(info: tuple[Any, ...]) -> socket.socket:
            family, kind, protocol, _, address = info
            if is_allowed is not None and not is_allowed(str(address[0])):
                raise BlockedSocketError("not allowed")  # one text for all, which aiohttp then reports as one error
            return socket.socket(family=family, type=kind, proto=protocol)

        self._connector = _connector_class()(socket_factory=open_socket)
        self._session = ClientSession(
            connector=self._connector,
            middlewares=(_send_once,),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            headers=_HEADERS,
            skip_auto_headers=("content-type",),
            timeout=ClientTimeout(total=None),
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
        )
        self._connect_s = connect_s

    async def close(self) -> None:
        """Close all connections at once, whatever is still unsent."""
        for transport in list(self._connector.transports):
            transport.abort()
        await self._session.close()

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        max_bytes: int,
        ok_codes: Collection[int] = (),
        within_s: float | None = None,
    ) -> HttpResponse:
        """Send a request once and read the response; raises HttpError, or NotSentError if nothing was sent.

        The caller enforces its time limit ``within_s`` by cancellation; connections get a share of it. A CancelledError
        has ``is_sent``. The body of an error response is read as far as it comes.
        """
        from aiohttp import ClientError  # noqa: PLC0415

        attempt = _Attempt()
        _attempt.set(attempt)
        data: bytes | BytesIO | None = body
        ends_at: float | None = None
        if within_s is not None:
            ends_at = asyncio.get_running_loop().time() + _ERROR_BODY_SHARE * within_s
        if body and len(body) > _STREAMED_BYTES:
            data = BytesIO(body)
        try:
            async with self._session.request(
                method,
                _parse_url(url),
                headers=headers,
                data=data,
                allow_redirects=False,
                timeout=_connect_timeout(self._connect_s, within_s),
            ) as response:
                return await _read_response(response, max_bytes, ok_codes, ends_at)
        except (ClientError, OSError, ValueError) as error:
            attempt.abort()
            raise translate_error(error) from None
        except BaseException as error:
            attempt.abort()
            if isinstance(error, asyncio.CancelledError):
                error.is_sent = attempt.transport is not None  # type: ignore[attr-defined]
            raise


class _Attempt:
    """One request; it has a transport as soon as something may have been sent."""

    transport: asyncio.Transport | None = None

    def abort(self) -> None:
        """Drop what is unsent; aiohttp alone would go on sending it."""
        if self.transport is not None:
            self.transport.abort()


_attempt: ContextVar[_Attempt] = ContextVar("graphmill_http_attempt")


async def _send_once(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Middleware: aiohttp sends a request again after its own errors, but not after ours."""
    from aiohttp import ClientError  # noqa: PLC0415

    try:
        return await handler(request)
    except (ClientError, OSError, ValueError) as error:
        raise translate_error(error) from None


async def _read_response(
    response: ClientResponse, max_bytes: int, ok_codes: Collection[int], ends_at: float | None
) -> HttpResponse:
    headers, status = _join_headers(response.headers.items()), response.status
    length, encoding = headers.get("content-length", ""), headers.get("content-encoding", "")
    is_empty = response.method == "HEAD" or status in (204, 205, 304) or length == "0"
    is_good = 200 <= status < 300 or status in ok_codes
    if is_good:
        decoder = Decoder(encoding, max_bytes)
        if not is_empty and length.isascii() and length.isdigit():
            decoder.check_size(int(length))
        body = await read_whole(response.content, decoder)
    else:
        body = await read_beginning(response.content, encoding, _MAX_ERROR_BODY_BYTES, until=ends_at)
    return HttpResponse(status=status, headers=headers, body=body, is_empty=is_empty, is_good=is_good)


def _join_headers(items: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Join headers of one name by commas, as HTTP reads them, and cookies, which hold commas, by lines."""
    found: dict[str, str] = {}
    for name, value in items:
        key = name.lower()
        if key in found:
            separator = "\n" if key == "set-cookie" else ", "
            value = f"{found[key]}{separator}{value}"  # noqa: PLW2901
        found[key] = value
    return found


@lru_cache(maxsize=256)
def _parse_url(text: str) -> URL:
    from yarl import URL  # noqa: PLC0415

    if _NOT_IN_A_URL.search(text):  # yarl sends what is said to be encoded as it is
        raise InvalidRequestError("not a valid URL or header")
    return URL(text, encoded=True)


@lru_cache(maxsize=256)
def _connect_timeout(connect_s: float, within_s: float | None) -> ClientTimeout:
    """Limit the time for a connection, look-up of the name and TLS included."""
    from aiohttp import ClientTimeout  # noqa: PLC0415

    if within_s is not None:
        connect_s = min(connect_s, _CONNECT_SHARE * within_s)
    return ClientTimeout(total=None, connect=connect_s)


@cache
def _connector_class() -> Callable[..., Any]:
    """Define the connector at first use: to import aiohttp takes longer than most commands do."""
    from aiohttp import ServerDisconnectedError, TCPConnector  # noqa: PLC0415

    class KeepAliveConnector(TCPConnector):
        """Reuses a connection only if nothing came over it since the last response, and keeps few idle ones."""

        def __init__(self, **options: Any) -> None:
            super().__init__(limit=0, keepalive_timeout=_KEEP_ALIVE_S, **options)
            self.transports: WeakSet[asyncio.Transport] = WeakSet()
            self.in_use = self.max_idle = 0

        async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:  # noqa: ASYNC109  aiohttp's signature
            while True:
                connection = await super().connect(req, traces, timeout)
                transport = connection.transport
                if transport is None:  # lost as soon as it was made
                    connection.close()
                    raise ServerDisconnectedError
                if transport not in self.transports or _is_clean(connection.protocol, transport):
                    break
                transport.abort()
                connection.close()
            self.transports.add(transport)
            self.in_use += 1
            self.max_idle = max(self.max_idle, self.in_use, _MAX_IDLE)
            connection.add_callback(lambda: self.before_release(connection.protocol))
            _attempt.get().transport = transport
            return connection

        def before_release(self, protocol: Any) -> None:
            self.in_use -= 1
            if len(self.transports) - self.in_use > self.max_idle:
                protocol.force_close()

    return KeepAliveConnector


def _is_clean(protocol: Any, transport: asyncio.Transport) -> bool:
    """Whether a used connection is open, all of its last request sent, and nothing received after the response."""
    if protocol.should_close or transport.is_closing() or transport.get_write_buffer_size():
        return False
    unread = select.poll()  # the event loop may not have seen yet what is there, or that the server has hung up
    unread.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return not unread.poll(0)


# -- response bodies


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
                made = inflater.decompress(piece, _DECODED_BYTES)
            except zlib.error as error:
                raise HttpError(f"response is not valid {self._coding}: {error}") from None
            self._take(made)
            piece = inflater.unconsumed_tail or inflater.unused_data
            is_more = bool(piece) or (len(made) == _DECODED_BYTES and not inflater.eof)
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
