"""A server that takes its time: ``python -m benchmarks.slow_server SECONDS`` answers each request so much later with its own path.

It is as cheap as a server can be.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AbstractContextManager

from benchmarks.own_process import serve, serving

_HEAD_END = b"\r\n\r\n"


class _Connection(asyncio.Protocol):
    """One connection; its requests have no body and come one after the other."""

    def __init__(self, takes_s: float) -> None:
        self._takes_s = takes_s
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._received.endswith(_HEAD_END):
            body = b'{"path":"%s"}' % self._received.split(b" ", 2)[1]
            self._received = b""
            asyncio.get_running_loop().call_later(self._takes_s, self._answer, body)

    def _answer(self, body: bytes) -> None:
        if not self._transport.is_closing():
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            self._transport.write(head + body)


def slow_server(takes_s: float) -> AbstractContextManager[str]:
    """Start one; give its address."""
    return serving("benchmarks.slow_server", takes_s)


if __name__ == "__main__":
    asyncio.run(serve(lambda: _Connection(float(sys.argv[1]))))
