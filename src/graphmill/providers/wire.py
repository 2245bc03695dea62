"""The wire: one pool of connections to a provider, and every way in which an exchange over it can end, in our words."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.core.connector import connector_class
from graphmill.core.content_decoding import ACCEPTED, Decoder, UnknownEncodingError
from graphmill.core.errors import AttemptError, Transient, Unavailable
from graphmill.core.message import described
from graphmill.core.usage import Usage
from graphmill.providers.answer import Answer

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, ClientTimeout
    from yarl import URL

MOST_BYTES = 32 << 20
_MOST_ERROR_BYTES = 64 << 10
_KEEP_ALIVE_S = 4.0  # less than the 5 s after which many servers hang up: what is sent just then is lost
_CONNECT_S = 10.0
_LARGE_BYTES = 1 << 20


class Sent(NamedTuple):
    """What is sent where; a body of None asks by GET."""

    url: str
    headers: Mapping[str, str]
    body: bytes | None = None


class Wire:
    """Sends requests, each once; what they share is let go of by ``close``. Made on the loop that it is used on."""

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar  # noqa: PLC0415

        connector = connector_class()(limit=0, keepalive_timeout=_KEEP_ALIVE_S)
        self._session: ClientSession = ClientSession(
            connector=connector,
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=ClientTimeout(total=None),
            headers={"accept": "application/json", "accept-encoding": ACCEPTED, "user-agent": "graphmill"},
        )
        self._session._retry_connection = False  # it would ask again by itself
        self._most_bytes = most_bytes

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def send(self, sent: Sent, *, timeout_s: float | None) -> Answer:
        """Send a request and read its whole answer within this time, however it drips; an AttemptError says what went wrong."""
        from aiohttp import ClientError  # noqa: PLC0415

        try:
            async with self._session.request(
                "GET" if sent.body is None else "POST",
                _url(sent.url),
                headers=sent.headers,
                data=_payload(sent.body),
                allow_redirects=False,
                timeout=_timeout(timeout_s),
            ) as response:
                return await self._read(response)
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            raise _translated(error, timeout_s) from None

    async def _read(self, response: ClientResponse) -> Answer:
        headers = {name.lower(): value for name, value in response.headers.items()}
        if not 200 <= response.status < 300:
            return Answer(status=response.status, headers=headers, body=await _beginning(response, headers))
        try:
            decoder = Decoder(headers.get("content-encoding", ""), self._most_bytes)
            decoder.expect(response.content_length)
            await _feed(decoder, response)
            return Answer(status=response.status, headers=headers, body=decoder.whole())
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

    return ClientTimeout(total=timeout_s, sock_connect=_CONNECT_S if timeout_s is None else min(_CONNECT_S, 0.9 * timeout_s))


def _payload(body: bytes | None) -> bytes | BytesIO | None:
    """Give what is large as a file, which is sent piece by piece, between which others have their turn."""
    return body if body is None or len(body) < _LARGE_BYTES else BytesIO(body)


async def _feed(decoder: Decoder, response: ClientResponse) -> None:
    while piece := await response.content.readany():
        for _ in decoder.feed(piece):
            await asyncio.sleep(0)


async def _beginning(response: ClientResponse, headers: Mapping[str, str]) -> bytes:
    """Read the body of an error as far as it tells something: its status counts, also where the rest is damaged or cut."""
    from aiohttp import ClientError  # noqa: PLC0415

    try:
        decoder = Decoder(headers.get("content-encoding", ""), _MOST_ERROR_BYTES)
    except UnknownEncodingError:
        return b""
    try:
        await _feed(decoder, response)
    except (AttemptError, ClientError, OSError):
        response.close()
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
    return f"can not connect: {_cause(error.os_error)}"


def _cause(error: BaseException) -> str:
    return getattr(error, "strerror", None) or described(error)


def _used(error: AttemptError) -> AttemptError:
    """Note that a request was sent; what it costs nobody knows."""
    error.usage = Usage(requests=1)
    return error
