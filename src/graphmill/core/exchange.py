"""An exchange: one request over a connection of the pool, and its answer, at half of what a whole client session costs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from graphmill.core.pool import Pool

if TYPE_CHECKING:
    from aiohttp import ClientTimeout, StreamReader
    from multidict import CIMultiDictProxy
    from yarl import URL

MOST_BODY_BYTES = 1 << 20  # what is larger is sent piece by piece, which a session does
_BUFFER_BYTES = 1 << 16
_NOT_IN_A_TARGET = re.compile(r"[\x00-\x20\x7f]")
_LINE_ENDS = re.compile(r"[\x00\r\n]")
_SWITCHING = 101

T = TypeVar("T")
Reader = Callable[[int, "CIMultiDictProxy[str]", "StreamReader"], Awaitable[T]]


class Peer:
    """Whom requests are sent to: what the pool knows a connection by, and the header that names it."""

    __slots__ = ("host_line", "key", "request")

    def __init__(self, url: URL) -> None:
        from aiohttp import ClientRequest  # noqa: PLC0415

        self.request: Any = ClientRequest("GET", url)
        self.key = self.request.connection_key
        self.host_line = f"Host: {self.request.headers['Host']}"


def head_of(peer: Peer, method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """Write the head of a request but for its length and its end; ValueError for what could be taken for more than it is.

    The names of its headers are in lower case, so that none is there twice.
    """
    lines = [
        *(() if "host" in headers else (peer.host_line,)),
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    head = "\r\n".join(lines)
    if _NOT_IN_A_TARGET.search(target) or len(_LINE_ENDS.findall(head)) != 2 * (len(lines) - 1):
        raise ValueError("an address or a header holds a line's end or a space")
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode()


def with_body(head: bytes, body: bytes | None) -> bytes:
    """Give a whole request; None is no body, not even an empty one."""
    return head + b"\r\n" if body is None else b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


def length_of(headers: Mapping[str, str]) -> int | None:
    """Read how long a body is said to be."""
    said = headers.get("content-length", "")
    return int(said) if said.isascii() and said.isdigit() else None


async def exchange(
    pool: Pool,
    peer: Peer,
    sent: bytes,
    *,
    timeout: ClientTimeout,  # noqa: ASYNC109  it is for the connection
    read: Reader[T],
    most_header_bytes: int = 8190,
    has_content: bool = True,
) -> T:
    """Send a request once and give what ``read`` makes of its status, headers and content; an error of aiohttp's says what went wrong.

    No redirect is followed, no cookie kept and nothing decoded. A connection on which not all was read is not used again.
    """
    link = pool.idle(peer.key) or await pool.connect(peer.request, timeout)
    try:
        protocol = link.protocol
        protocol.set_response_params(
            skip_payload=not has_content,
            read_until_eof=True,
            auto_decompress=False,
            read_bufsize=_BUFFER_BYTES,
            max_line_size=most_header_bytes,
            max_field_size=most_header_bytes,
        )
        protocol.transport.write(sent)
        message, content = await _answered(protocol, peer)
        made = await read(message.code, message.headers, content)
    except BaseException:
        link.close()
        raise
    if protocol.should_close:
        link.close()
    else:
        pool.keep(peer.key, link)
    return made


async def _answered(protocol: Any, peer: Peer) -> tuple[Any, StreamReader]:
    """Read the head of the answer, after those that only say that there will be one."""
    try:
        while True:
            message, content = await protocol.read()
            if not 100 <= message.code < 200 or message.code == _SWITCHING:
                return message, content
    except Exception as error:
        from aiohttp import ClientResponseError  # noqa: PLC0415
        from aiohttp.http import HttpProcessingError  # noqa: PLC0415

        if not isinstance(error, HttpProcessingError):
            raise
        raise ClientResponseError(peer.request.request_info, (), status=error.code, message=error.message) from error
