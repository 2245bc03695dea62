"""The wire: one pool of connections to a provider, and every way in which an exchange over it can end, in our words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextvars import ContextVar
from functools import lru_cache, partial
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from graphmill.core.content_decoding import ACCEPTED, Decoder, UnknownEncodingError, read_beginning, read_whole
from graphmill.core.errors import AttemptError, Transient, Unavailable
from graphmill.core.exchange import MOST_BODY_BYTES, Peer, exchange, head_of, length_of, with_body
from graphmill.core.exchange_faults import broken_off, unconnected
from graphmill.core.pool import Pool, connect_timeout
from graphmill.core.usage import Usage
from graphmill.providers.answer import Answer

if TYPE_CHECKING:
    from aiohttp import StreamReader
    from multidict import CIMultiDictProxy
    from yarl import URL

MOST_BYTES = 32 << 20
_MOST_ERROR_BYTES = 64 << 10
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


_ENDLESS = _Time(None, None)


class _Dispatch:
    """How far one request has come: before it ``is_connected`` nothing of it was sent."""

    is_connected = False


_dispatch: ContextVar[_Dispatch] = ContextVar("graphmill_model_dispatch")


def _note_connected() -> None:
    _dispatch.get().is_connected = True


class _Route(NamedTuple):
    """What all requests with these headers to one URL have in common; the headers are kept, so that their id is no other's."""

    headers: Mapping[str, str]
    peer: Peer
    head: bytes


class Wire:
    """Sends requests, each once; what they share is let go of by ``close``. Made on the loop that it is used on."""

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        from aiohttp import ClientError  # noqa: PLC0415

        self._pool = Pool(connected=_note_connected)
        self._session = self._pool.session(headers=_HEADERS)
        self._errors = ClientError, TimeoutError, OSError, ValueError
        self._most_bytes = most_bytes
        self._routes: dict[tuple[str, int], _Route] = {}

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    async def send(self, sent: Sent, *, timeout_s: float | None) -> Answer:
        """Send a request and read its whole answer within this time, however it drips; an AttemptError says what went wrong.

        Whoever is cancelled when it was sent already is told by the ``usage`` of the CancelledError.
        """
        dispatch = _Dispatch()
        _dispatch.set(dispatch)
        ends_at = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        try:
            if ends_at is None:
                return await self._sent(sent, _ENDLESS)
            async with asyncio.timeout_at(ends_at):
                return await self._sent(sent, _Time(timeout_s, ends_at))
        except self._errors as error:
            raise _translated(error, timeout_s) from None
        except asyncio.CancelledError as error:
            if dispatch.is_connected:  # asyncio knows it by its exact type: no other error can be raised instead
                error.usage = Usage(requests=1)  # type: ignore[attr-defined]
            raise

    def _sent(self, sent: Sent, time: _Time) -> Awaitable[Answer]:
        is_small = sent.body is not None and len(sent.body) <= MOST_BODY_BYTES
        return self._exchanged(sent, time) if is_small else self._requested(sent, time)

    async def _exchanged(self, sent: Sent, time: _Time) -> Answer:
        route = self._routes.get((sent.url, id(sent.headers))) or self._route(sent)
        whole = with_body(route.head, sent.body)
        return await exchange(
            self._pool, route.peer, whole, timeout=connect_timeout(time.limit_s), read=partial(self._read, time)
        )

    def _route(self, sent: Sent) -> _Route:
        if len(self._routes) >= _MOST_ROUTES:
            self._routes.clear()
        url = _url(sent.url)
        peer = Peer(url)
        made = _Route(sent.headers, peer, head_of(peer, "POST", url.raw_path_qs, _merged(sent.headers)))
        self._routes[sent.url, id(sent.headers)] = made
        return made

    async def _requested(self, sent: Sent, time: _Time) -> Answer:
        async with self._session.request(
            "GET" if sent.body is None else "POST",
            _url(sent.url),
            headers=sent.headers,
            data=None
            if sent.body is None
            else BytesIO(sent.body),  # a file is sent piece by piece, between which others have their turn
            allow_redirects=False,
            timeout=connect_timeout(time.limit_s),
        ) as response:
            return await self._read(time, response.status, response.headers, response.content)

    async def _read(self, time: _Time, status: int, headers: CIMultiDictProxy[str], content: StreamReader) -> Answer:
        encoding = headers.get("content-encoding", "")
        if not 200 <= status < 300:
            body = await read_beginning(content, encoding, _MOST_ERROR_BYTES, until=time.almost_over)
            return Answer(status=status, headers=headers, body=body)
        try:
            decoder = Decoder(encoding, self._most_bytes)
            decoder.expect(length_of(headers))
            return Answer(status=status, headers=headers, body=await read_whole(content, decoder))
        except UnknownEncodingError as error:
            raise _used(Transient(f"{error}, though only {ACCEPTED} was allowed")) from None
        except AttemptError as error:
            raise _used(error) from None


@lru_cache(maxsize=256)
def _url(url: str) -> URL:
    from yarl import URL  # noqa: PLC0415

    return URL(url, encoded=True)


def _merged(headers: Mapping[str, str]) -> dict[str, str]:
    """Put headers over those of all requests, whatever their case; how long a body is, is not theirs to say."""
    merged = {**_HEADERS, **{name.lower(): value for name, value in headers.items()}}
    return {name: value for name, value in merged.items() if name not in ("content-length", "transfer-encoding")}


def _translated(error: Exception, timeout_s: float | None) -> AttemptError:
    from aiohttp import ClientConnectorCertificateError, ClientConnectorError, ClientResponseError, InvalidURL  # noqa: PLC0415

    if (why := unconnected(error)) is not None:
        is_place = isinstance(error, ClientConnectorError) and not isinstance(error, ClientConnectorCertificateError)
        return Unavailable(f"{why}; check the address, and that a server runs there" if is_place else why)
    if isinstance(error, InvalidURL):
        return Unavailable("the address is no URL; it is like https://host/v1")
    if isinstance(error, TimeoutError):
        said = f"no whole answer within {timeout_s:g} s" if timeout_s else "no whole answer in time"
    elif isinstance(error, ClientResponseError):
        said = "the answer is no HTTP, or its head is too large"
    elif isinstance(error, ValueError):
        return Unavailable(f"the request can not be sent: {type(error).__name__}; check the address and the headers")
    else:
        said = broken_off(error) or f"the connection failed: {type(error).__name__}"
    return _used(Transient(said))


def _used(error: AttemptError) -> AttemptError:
    """Note that a request was sent; what it costs nobody knows."""
    error.usage = Usage(requests=1)
    return error
