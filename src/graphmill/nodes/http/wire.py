"""The wire: one pool of connections, and every way in which an exchange over it can end, in our words."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Iterable, Mapping
from contextvars import ContextVar
from functools import lru_cache, partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from graphmill.core.content_decoding import ACCEPTED, Decoder, UnknownEncodingError, read_beginning, read_whole
from graphmill.core.errors import AttemptError, Permanent, Transient, described
from graphmill.core.exchange import MOST_BODY_BYTES, Peer, Reader, exchange, head_of, length_of, with_body
from graphmill.core.exchange_faults import broken_off, unconnected
from graphmill.core.pool import Pool, connect_timeout
from graphmill.nodes.http.answer import Answer
from graphmill.nodes.http.hosts import is_public
from graphmill.nodes.http.request import Request

if TYPE_CHECKING:
    from aiohttp import ClientTimeout, StreamReader
    from multidict import CIMultiDictProxy

_MOST_HEADER_BYTES = 32 * 1024
_MOST_EXPLAINING_BYTES = 64 * 1024


class ForbiddenAddressError(OSError):
    """A host that a template named has an address that is not public."""


class _Dispatch:
    """How far one request has come: before it ``is_connected`` nothing of it was sent."""

    is_connected = False


_dispatch: ContextVar[_Dispatch] = ContextVar("graphmill_http_dispatch")


def _note_connected() -> None:
    _dispatch.get().is_connected = True


class Wire:
    """Sends requests; what they share is let go of by ``close``. One that is guarded connects to public addresses only."""

    def __init__(self, *, is_guarded: bool) -> None:
        from aiohttp import ClientError  # noqa: PLC0415
        from yarl import URL  # noqa: PLC0415

        guard = _guarded_socket if is_guarded else None
        self._pool = Pool(connected=_note_connected, socket_factory=guard)
        self._session = self._pool.session(max_line_size=_MOST_HEADER_BYTES, max_field_size=_MOST_HEADER_BYTES)
        self._url = partial(URL, encoded=True)
        self._peer = lru_cache(maxsize=256)(lambda place: Peer(URL(place, encoded=True)))
        self._errors = ClientError, OSError, ValueError

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    async def send(
        self, request: Request, *, most: int, within_s: float | None, ok_codes: Collection[int] = ()
    ) -> Answer:
        """Send a request and read its whole answer; an AttemptError says what went wrong, and whether it was surely not sent.

        An answer is good if its status is 2xx or one of ``ok_codes``.
        """
        dispatch = _Dispatch()
        _dispatch.set(dispatch)
        try:
            timeout, read = connect_timeout(within_s), partial(_read, request.method, most, ok_codes)
            is_small = request.body is None or len(request.body) <= MOST_BODY_BYTES
            return await (self._exchanged if is_small else self._requested)(request, timeout, read)
        except Permanent as error:
            said = f"{request.shown}: {error}"  # what was sent may have happened, although its answer can never be read
            raise (Permanent(said) if request.is_reading else Transient(said)) from None
        except Transient as error:
            raise Transient(f"{request.shown}: {error}") from None
        except self._errors as error:
            raise _translated(error, request) from None
        except asyncio.CancelledError as error:
            unsent = Transient(f"{request.shown}: no connection in time", is_unsent=True)
            ended: BaseException = error if dispatch.is_connected else unsent
            ended.awaited = request.shown  # type: ignore[attr-defined]  # for the message of a time-out
            raise ended from None

    async def _exchanged(self, request: Request, timeout: ClientTimeout, read: Reader[Answer]) -> Answer:  # noqa: ASYNC109
        peer = self._peer(request.url.place)
        body = request.body if request.is_reading else request.body or b""
        return await exchange(
            self._pool,
            peer,
            with_body(head_of(peer, request.method, request.url.target, request.headers), body),
            timeout=timeout,
            read=read,
            most_header_bytes=_MOST_HEADER_BYTES,
            has_content=request.method != "HEAD",
        )

    async def _requested(self, request: Request, timeout: ClientTimeout, read: Reader[Answer]) -> Answer:  # noqa: ASYNC109
        """Send what is large as a session does it."""
        async with self._session.request(
            request.method,
            self._url(str(request.url)),
            headers=request.headers,
            data=BytesIO(request.body or b""),  # a file is sent piece by piece, between which others have their turn
            allow_redirects=False,
            skip_auto_headers=("content-type",),
            timeout=timeout,
        ) as response:
            return await read(response.status, response.headers, response.content)


async def _read(
    method: str, most: int, ok_codes: Collection[int], status: int, found: CIMultiDictProxy[str], content: StreamReader
) -> Answer:
    headers, length = _joined(found.items()), length_of(found)
    encoding = headers.get("content-encoding", "")
    is_empty = method == "HEAD" or status in (204, 205, 304) or length == 0
    is_good = 200 <= status < 300 or status in ok_codes
    if not is_good:
        body = await read_beginning(content, encoding, _MOST_EXPLAINING_BYTES)
    else:
        decoder = _decoder(encoding, most)
        decoder.expect(None if is_empty else length)
        body = await read_whole(content, decoder)
    return Answer(status=status, headers=headers, body=body, is_empty=is_empty, is_good=is_good)


def _decoder(encoding: str, most: int) -> Decoder:
    try:
        return Decoder(encoding, most, limit="max_bytes")
    except UnknownEncodingError as error:
        raise Permanent(f"{error}; leave accept-encoding to the node, which takes {ACCEPTED}") from None


def _joined(items: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Join headers of one name, as HTTP reads them; cookies, which hold commas, by lines."""
    found: dict[str, str] = {}
    for name, value in items:
        key = name.lower()
        found[key] = f"{found[key]}{chr(10) if key == 'set-cookie' else ', '}{value}" if key in found else value
    return found


def _guarded_socket(info: tuple[Any, ...]) -> socket.socket:
    """Make a socket for an address that is about to be connected to: no answer of a name server can change it any more."""
    family, kind, protocol, _, address = info
    if not is_public(str(address[0])):
        raise ForbiddenAddressError("not a public address")  # the same words for all, so that several are told as one
    return socket.socket(family=family, type=kind, proto=protocol)


def _translated(error: Exception, request: Request) -> AttemptError:
    from aiohttp import ClientConnectorCertificateError, ClientResponseError, InvalidURL  # noqa: PLC0415

    if isinstance(getattr(error, "os_error", None), ForbiddenAddressError):
        return _forbidden(request)
    if (why := unconnected(error)) is not None:
        said = f"{request.shown}: {why}"
        return (
            Permanent(said) if isinstance(error, ClientConnectorCertificateError) else Transient(said, is_unsent=True)
        )
    if isinstance(error, InvalidURL):
        return Permanent(f"{request.shown}: not a URL that can be asked for")
    odd = (
        f"the answer is no HTTP: {error.message:.200}"
        if isinstance(error, ClientResponseError)
        else f"{described(error):.200}"
    )
    said = broken_off(error) or odd
    return Transient(f"{request.shown}: {said}")


def _forbidden(request: Request) -> Permanent:
    """Say why a host is not asked."""
    why = "has an address that is not public, and a template or a redirect leads there"
    return Permanent(f"{request.shown}: {request.url.host} {why}; list it in allow_hosts if that is meant")
