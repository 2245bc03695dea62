"""Connections of which is known which request has got one."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from graphmill.core import connector


class Dispatch:
    """How far one request has come: before it ``is_connected`` nothing of it was sent."""

    is_connected = False


dispatch: ContextVar[Dispatch] = ContextVar("graphmill_http_dispatch")


class Connector(connector.Connector):
    """Notes for each request that it has a connection."""

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:  # noqa: ASYNC109  as it is there
        """Give a connection, and note that the request has one."""
        connection = await super().connect(req, traces, timeout)
        dispatch.get().is_connected = True
        return connection
