"""The pool's connections: one on which something came that nobody asked for is not used again."""

from __future__ import annotations

import select
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp import TCPConnector


@cache
def connector_class() -> Callable[..., TCPConnector]:
    """Give a TCPConnector that closes such a connection: what came would be taken for the next answer, and so on for all after it.

    It is made at first use, since it needs aiohttp; with ``connected=`` that is called whenever a request has got its connection.
    """
    from aiohttp import TCPConnector  # noqa: PLC0415
    from aiohttp.connector import Connection  # noqa: PLC0415

    class Connector(TCPConnector):
        def __init__(self, *, connected: Callable[[], None] | None = None, **options: Any) -> None:
            super().__init__(**options)
            self._connected = connected

        async def connect(self, req: Any, traces: Any, timeout: Any) -> Connection:  # noqa: ASYNC109  as it is there
            connection = await super().connect(req, traces, timeout)
            if self._connected is not None:
                self._connected()
            return connection

        async def _get(self, key: Any, traces: Any) -> Connection | None:
            while (connection := await super()._get(key, traces)) is not None and _is_spoilt(connection.protocol):
                connection.close()
            return connection

    return Connector


def _is_spoilt(protocol: Any) -> bool:
    return protocol is None or protocol.should_close or _has_begun_more(protocol._parser) or not _is_quiet(protocol.transport)


def _has_begun_more(parser: Any) -> bool:
    """Tell whether another head was begun behind the answer: at its end a parser gives what it has of one."""
    return parser is not None and parser.feed_eof() is not None


def _is_quiet(transport: Any) -> bool:
    """Tell whether all was sent, and nothing has come that the loop has not seen yet, be it that the other side has hung up."""
    socket = None if transport is None else transport.get_extra_info("socket")
    if socket is None or (number := socket.fileno()) < 0 or transport.get_write_buffer_size():
        return False
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return not poll.poll(0)
