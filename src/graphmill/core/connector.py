"""The pool of connections that requests go over: how long one is kept, and that one on which something came unasked is not used again."""

from __future__ import annotations

import select
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp import ClientSession, ClientTimeout, TCPConnector

_KEEP_ALIVE_S = 4.0  # less than the 5 s after which many servers hang up: of what is sent in that moment nobody knows whether it was read
_CONNECT_S = 10.0
_CONNECT_SHARE = 0.9


@cache
def connector_class() -> Callable[..., TCPConnector]:
    """Give a TCPConnector that closes such a connection: what came would be taken for the next answer, and so on for all after it.

    It is made at first use, since it needs aiohttp; with ``connected=`` that is called whenever a request has got its connection.
    """
    from aiohttp import TCPConnector  # noqa: PLC0415
    from aiohttp.connector import Connection  # noqa: PLC0415

    class Connector(TCPConnector):
        def __init__(self, *, connected: Callable[[], None] | None = None, **options: Any) -> None:
            super().__init__(limit=0, keepalive_timeout=_KEEP_ALIVE_S, **options)
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


def session_over(connector: TCPConnector, **options: Any) -> ClientSession:
    """Give a session that does nothing by itself: it keeps no cookie, asks no proxy, decodes nothing and sends nothing again."""
    from aiohttp import ClientSession, ClientTimeout, DummyCookieJar  # noqa: PLC0415

    session = ClientSession(
        connector=connector,
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        timeout=ClientTimeout(total=None),
        **options,
    )
    session._retry_connection = False
    return session


@lru_cache(maxsize=256)
def connect_timeout(within_s: float | None) -> ClientTimeout:
    """Tell how long a connection may take, its name's look-up and TLS included, of the time that there is for all."""
    from aiohttp import ClientTimeout  # noqa: PLC0415

    return ClientTimeout(total=None, connect=_CONNECT_S if within_s is None else min(_CONNECT_S, _CONNECT_SHARE * within_s))


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
