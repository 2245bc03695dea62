"""The pool's connections: one on which something came that nobody asked for is not used again."""

from __future__ import annotations

from typing import Any

from aiohttp import TCPConnector
from aiohttp.connector import Connection


class Connector(TCPConnector):
    """Closes such a connection: what came would be taken for the next answer, and every answer after that for another request's."""

    async def _get(self, key: Any, traces: Any) -> Any:
        while (connection := await super()._get(key, traces)) is not None and _is_spoilt(connection):
            connection.close()
        return connection


def _is_spoilt(connection: Connection) -> bool:
    return connection.protocol is None or connection.protocol.should_close
