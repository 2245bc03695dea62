"""The pool of connections that requests go over: how long one is kept, and that one on which something came unasked is not used again."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp import ClientSession, TCPConnector

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
            while (connection := await super()._get(key, traces)) is not None and _is_spoilt(connection):
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


def connect_s(within_s: float | None) -> float:
    """Tell how long a connection may take, of the time that there is for all."""
    return _CONNECT_S if within_s is None else min(_CONNECT_S, _CONNECT_SHARE * within_s)


def _is_spoilt(connection: Any) -> bool:
    return connection.protocol is None or connection.protocol.should_close
