"""The pool's connections: one on which something came that nobody asked for is not used again."""

from __future__ import annotations

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
            while (connection := await super()._get(key, traces)) is not None and _is_spoilt(connection):
                connection.close()
            return connection

    return Connector


def _is_spoilt(connection: Any) -> bool:
    return connection.protocol is None or connection.protocol.should_close
