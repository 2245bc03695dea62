"""A server that takes its time: ``python -m benchmarks.slow_server SECONDS`` answers each request so much later with its own path.

It is as cheap as a server can be, and a process of its own, so that what is measured is the client.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).parent.parent
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


@contextmanager
def slow_server(takes_s: float) -> Iterator[str]:
    """Start one; give its address."""
    command = [sys.executable, "-m", "benchmarks.slow_server", str(takes_s)]
    with subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.stdin.close()  # at which it ends


async def _serve(takes_s: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(takes_s), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1])))
