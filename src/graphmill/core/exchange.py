"""An exchange: one request over a connection of the pool, and its answer, at half of what a whole client session costs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from graphmill.core.errors import Unavailable

if TYPE_CHECKING:
    from aiohttp import ClientTimeout, StreamReader, TCPConnector
    from multidict import CIMultiDictProxy
    from yarl import URL

MOST_BODY_BYTES = 1 << 20  # what is larger is sent piece by piece, which a session does
_BUFFER_BYTES = 1 << 16
_NOT_IN_A_TARGET = re.compile(r"[\x00-\x20\x7f]")
_NOT_IN_A_LINE = re.compile(r"[\x00\r\n]")
_SWITCHING = 101

T = TypeVar("T")
Reader = Callable[[int, "CIMultiDictProxy[str]", "StreamReader"], Awaitable[T]]


class Route:
    """Where requests go and with which headers: all that is the same for each of them, written once."""

    __slots__ = ("head", "request")

    def __init__(self, method: str, url: URL, headers: Mapping[str, str]) -> None:
        from aiohttp import ClientRequest  # noqa: PLC0415

        self.request: Any = ClientRequest(method, url, headers=headers)  # what the pool knows the connection by
        self.request.headers.popall("Content-Length", None)
        target, lines = self.request.url.raw_path_qs, [f"{name}: {value}" for name, value in self.request.headers.items()]
        if _NOT_IN_A_TARGET.search(target) or any(map(_NOT_IN_A_LINE.search, lines)):
            raise Unavailable("the request can not be sent: its address or a header holds a line's end or a space")
        self.head = "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "Content-Length: "]).encode()


async def exchange(connector: TCPConnector, route: Route, body: bytes, *, timeout: ClientTimeout, read: Reader[T]) -> T:  # noqa: ASYNC109  it is for the connection
    """Send a request once and give what ``read`` makes of its status, headers and content; an error of aiohttp's says what went wrong.

    No redirect is followed, no cookie kept and nothing decoded. A connection on which not all was read is not used again.
    """
    connection = await _connected(connector, route, timeout)
    try:
        protocol = connection.protocol
        protocol.set_response_params(read_until_eof=True, auto_decompress=False, read_bufsize=_BUFFER_BYTES)
        protocol.transport.write(b"%b%d\r\n\r\n%b" % (route.head, len(body), body))
        message, content = await _answered(protocol, route)
        made = await read(message.code, message.headers, content)
    except BaseException:
        connection.close()
        raise
    connection.release()
    return made


async def _connected(connector: TCPConnector, route: Route, timeout: ClientTimeout) -> Any:  # noqa: ASYNC109
    from aiohttp import ConnectionTimeoutError, ServerDisconnectedError  # noqa: PLC0415

    try:
        connection = await connector.connect(route.request, traces=[], timeout=timeout)
    except TimeoutError as error:
        raise ConnectionTimeoutError from error
    if connection.transport is None:
        connection.close()
        raise ServerDisconnectedError
    return connection


async def _answered(protocol: Any, route: Route) -> tuple[Any, StreamReader]:
    """Read the head of the answer, after those that only say that there will be one."""
    from aiohttp import ClientResponseError  # noqa: PLC0415
    from aiohttp.http import HttpProcessingError  # noqa: PLC0415

    try:
        while True:
            message, content = await protocol.read()
            if not 100 <= message.code < 200 or message.code == _SWITCHING:
                return message, content
    except HttpProcessingError as error:
        raise ClientResponseError(route.request.request_info, (), status=error.code, message=error.message) from error
