"""The wire: one pool of connections to a provider, and every way in which an exchange over it can end, in our words."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.core.connector import connector_class
from graphmill.core.content_decoding import ACCEPTED, Decoder, UnknownEncodingError
from graphmill.core.errors import AttemptError, Transient, Unavailable
from graphmill.core.exchange import MOST_BODY_BYTES, Origin, exchange, head_of, length_of, with_body
from graphmill.core.message import described
from graphmill.core.usage import Usage
from graphmill.providers.answer import Answer

if TYPE_CHECKING:
    from aiohttp import ClientSession, ClientTimeout, StreamReader
    from multidict import CIMultiDictProxy
    from yarl import URL

MOST_BYTES = 32 << 20
_MOST_ERROR_BYTES = 64 << 10
_KEEP_ALIVE_S = 4.0  # less than the 5 s after which many servers hang up: what is sent just then is lost
_CONNECT_S = 10.0
_LAST_SHARE = 0.05  # of the time
_MOST_ROUTES = 256
_HEADERS = {"accept": "application/json", "accept-encoding": ACCEPTED, "user-agent": "graphmill"}


class Sent(NamedTuple):
    """What is sent where; a body of None asks by GET."""

    url: str
    headers: Mapping[str, str]
    body: bytes | None = None


class _Time(NamedTuple):
    """How long an exchange may take, and the moment when it must be over; None where the attempt's own limit ends it."""

    limit_s: float | None
    ends_at: float | None

    @property
    def almost_over(self) -> float | None:
        """When what only explains an error is waited for no longer, so that the error itself is told in time."""
        return None if self.limit_s is None or self.ends_at is None else self.ends_at - _LAST_SHARE * self.limit_s


class _Route(NamedTuple):
    """What all requests with these headers to one URL have in common; the headers are kept, so that their id is no other's."""

    headers: Mapping[str, str]
    origin: Origin
    head: bytes


class Wire:
    """Sends requests, each once; what they share is let go of by ``close``. Made on the loop that it is used on."""

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar  # noqa: PLC0415

        connector = self._connector = connector_class()(limit=0, keepalive_timeout=_KEEP_ALIVE_S)
        self._session: ClientSession = ClientSession(
            connector=connector,
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=ClientTimeout(total=None),
            headers=_HEADERS,
        )
        self._session._retry_connection = False  # it would ask again by itself
        self._errors = ClientError, TimeoutError, OSError, ValueError
        self._most_bytes = most_bytes
        self._routes: dict[tuple[str, int], _Route] = {}

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def send(self, sent: Sent, *, timeout_s: float | None) -> Answer:
        """Send a request and read its whole answer within this time, however it drips; an AttemptError says what went wrong."""
        ends_at = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        try:
            if ends_at is None:
                return await self._sent(sent, _Time(None, None))
            async with asyncio.timeout_at(ends_at):
                return await self._sent(sent, _Time(timeout_s, ends_at))
        except self._errors as error:
            raise _translated(error, timeout_s) from None

    def _sent(self, sent: Sent, time: _Time) -> Awaitable[Answer]:
        is_small = sent.body is not None and len(sent.body) <= MOST_BODY_BYTES
        return self._exchanged(sent, time) if is_small else self._requested(sent, time)

    async def _exchanged(self, sent: Sent, time: _Time) -> Answer:
        route = self._routes.get((sent.url, id(sent.headers))) or self._route(sent)
        whole = with_body(route.head, sent.body)
        return await exchange(self._connector, route.origin, whole, timeout=_timeout(time.limit_s), read=partial(self._read, time))

    def _route(self, sent: Sent) -> _Route:
        if len(self._routes) >= _MOST_ROUTES:
            self._routes.clear()
        url = _url(sent.url)
        origin = Origin(url)
        made = _Route(sent.headers, origin, head_of(origin, "POST", url.raw_path_qs, _merged(sent.headers)))
        self._routes[sent.url, id(sent.headers)] = made
        return made

    async def _requested(self, sent: Sent, time: _Time) -> Answer:
        async with self._session.request(
            "GET" if sent.body is None else "POST",
            _url(sent.url),
            headers=sent.headers,
            data=None if sent.body is None else BytesIO(sent.body),  # a file is sent piece by piece, between which others have their turn
            allow_redirects=False,
            timeout=_timeout(time.limit_s),
        ) as response:
            return await self._read(time, response.status, response.headers, response.content)

    async def _read(self, time: _Time, status: int, headers: CIMultiDictProxy[str], content: StreamReader) -> Answer:
        if not 200 <= status < 300:
            return Answer(status=status, headers=headers, body=await _beginning(content, headers, time))
        try:
            decoder = Decoder(headers.get("content-encoding", ""), self._most_bytes)
            decoder.expect(length_of(headers))
            await _feed(decoder, content)
            return Answer(status=status, headers=headers, body=decoder.whole())
        except UnknownEncodingError as error:
            raise _used(Transient(f"{error}, though only {ACCEPTED} was allowed")) from None
        except AttemptError as error:
            raise _used(error) from None


@lru_cache(maxsize=256)
def _url(url: str) -> URL:
    from yarl import URL  # noqa: PLC0415

    return URL(url, encoded=True)


@lru_cache(maxsize=256)
def _timeout(timeout_s: float | None) -> ClientTimeout:
    from aiohttp import ClientTimeout  # noqa: PLC0415

    return ClientTimeout(total=None, sock_connect=_CONNECT_S if timeout_s is None else min(_CONNECT_S, 0.9 * timeout_s))


def _merged(headers: Mapping[str, str]) -> dict[str, str]:
    """Put headers over those of all requests, whatever their case; how long a body is, is not theirs to say."""
    merged = {**_HEADERS, **{name.lower(): value for name, value in headers.items()}}
    return {name: value for name, value in merged.items() if name not in ("content-length", "transfer-encoding")}


async def _feed(decoder: Decoder, content: StreamReader) -> None:
    while piece := await content.readany():
        for _ in decoder.feed(piece):
            await asyncio.sleep(0)


async def _beginning(content: StreamReader, headers: Mapping[str, str], time: _Time) -> bytes:
    """Read the body of an error as far as it tells something: its status counts, also where the rest is damaged or cut."""
    from aiohttp import ClientError  # noqa: PLC0415

    try:
        decoder = Decoder(headers.get("content-encoding", ""), _MOST_ERROR_BYTES)
    except UnknownEncodingError:
        return b""
    with suppress(AttemptError, ClientError, OSError):  # where not all is read, the connection is not used again
        async with asyncio.timeout_at(time.almost_over):
            await _feed(decoder, content)
    return decoder.so_far


def _translated(error: Exception, timeout_s: float | None) -> AttemptError:
    import aiohttp  # noqa: PLC0415

    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError | aiohttp.ConnectionTimeoutError):
        return Unavailable(_unconnected(error))
    if isinstance(error, aiohttp.InvalidURL):
        return Unavailable("the address is no URL; it is like https://host/v1")
    if isinstance(error, TimeoutError):
        said = f"no whole answer within {timeout_s:g} s" if timeout_s else "no whole answer in time"
    elif isinstance(error, aiohttp.ClientPayloadError):
        said = "the answer was cut"
    elif isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError):
        said = "the connection was closed before the answer was there"
    elif isinstance(error, aiohttp.ClientResponseError):
        said = "the answer is no HTTP, or its head is too large"
    elif isinstance(error, ValueError):
        return Unavailable(f"the request can not be sent: {type(error).__name__}; check the address and the headers")
    else:
        said = f"the connection failed: {type(error).__name__}"
    return _used(Transient(said))


def _unconnected(error: Any) -> str:
    import aiohttp  # noqa: PLC0415

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the certificate is not trusted: {_cause(error.certificate_error)}"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return "no connection in time"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the host is not found: {_cause(error.os_error)}; check the address"
    place = f"[{error.host}]" if ":" in error.host else error.host
    return f"can not connect to {place}:{error.port}: {_refusal(error.os_error)}; check the address, and that a server runs there"


def _refusal(error: OSError) -> str:
    """Say why without the address, which asyncio puts in the place of the reason."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else _cause(error)


def _cause(error: BaseException) -> str:
    return getattr(error, "strerror", None) or described(error)


def _used(error: AttemptError) -> AttemptError:
    """Note that a request was sent; what it costs nobody knows."""
    error.usage = Usage(requests=1)
    return error
