"""The pool's connections: one on which something came that nobody asked for is not used again, and who has got one is known."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from aiohttp import TCPConnector


class Dispatch:
    """How far one request has come: before it ``is_connected`` nothing of it was sent."""

    is_connected = False


dispatch: ContextVar[Dispatch] = ContextVar("graphmill_http_dispatch")


class Connector(TCPConnector):
    """Closes such a connection: what came would be taken for the next answer, and every answer after that for another request's."""

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:  # noqa: ASYNC109  as it is there
        """Give a connection, and note that the request has one."""
        connection = await super().connect(req, traces, timeout)
        dispatch.get().is_connected = True
        return connection

    async def _get(self, key: Any, traces: Any) -> Any:
        idle = self._conns.get(key, ())
        for entry in [each for each in idle if each[0].should_close]:
            self._conns[key].remove(entry)
            entry[0].close()
        return await super()._get(key, traces)
