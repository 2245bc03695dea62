"""A server of our own on this machine: it logs what arrives, byte by byte, and answers as a test tells it, faults included."""

import asyncio
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

_STARTED_S = 30


@dataclass
class Seen:
    """One request as it came over the wire."""

    method: str
    target: str
    headers: list[tuple[str, bytes]]
    body: bytes
    connection: int

    @property
    def path(self):
        return self.target.partition("?")[0]

    @property
    def parts(self):
        """The parts of the path, decoded each by itself."""
        return [unquote(part, errors="strict") for part in self.path.split("/")[1:]]

    @property
    def query(self):
        return parse_qsl(self.target.partition("?")[2], keep_blank_values=True, errors="strict")

    def header(self, name):
        """The one header of this name, as text; None if there is none."""
        found = [value for key, value in self.headers if key == name]
        assert len(found) <= 1
        return found[0].decode() if found else None


def reply(body=b"", status=200, kind="application/json", *, headers=(), length=None):
    """Write a whole answer; ``length`` is what it says of its body, if not the truth."""
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in headers)]
    if kind:
        lines.append(f"Content-Type: {kind}")
    lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@dataclass
class Server:
    """Answers each request with what ``answer(seen)`` gives: bytes, or a coroutine function of a writer; None hangs up."""

    answer: object = field(default_factory=lambda: lambda seen: reply(b"{}"))
    host: str = "127.0.0.1"
    port: int = 0
    tls: object = None
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0

    def __enter__(self):
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(_STARTED_S)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(_STARTED_S)
        assert not self._thread.is_alive()

    @property
    def place(self):
        return f"{self.host}:{self.port}"

    @property
    def url(self):
        return f"http://{self.place}"

    def noted(self, seen):
        self.seen.append(seen)
        return seen

    async def _serve(self):
        self._loop, self._over, tasks = asyncio.get_running_loop(), asyncio.Event(), set()

        def begin(reader, writer):
            task = self._loop.create_task(self._talk(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(begin, self.host, self.port, limit=1 << 24, ssl=self.tls)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _talk(self, reader, writer):
        self.connections += 1
        number = self.connections
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._exchange(reader, writer, number):
                    pass
        finally:
            writer.transport.abort() if writer.is_closing() else writer.close()

    async def _exchange(self, reader, writer, number):
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        method, target, _ = first.decode("ascii").split(" ")
        headers = [
            (name.decode("ascii").lower(), value.strip(b" \t"))
            for name, _, value in (line.partition(b":") for line in lines)
        ]
        body = await reader.readexactly(int(dict(headers).get("content-length", b"0")))
        made = self.answer(self.noted(Seen(method, target, headers, body, number)))
        if made is None:
            return False
        if isinstance(made, bytes):
            writer.write(made)
            await writer.drain()
            return b"connection: close" not in made.lower()
        return await made(writer)


@contextmanager
def unreachable():
    """Give the URL of a server that answers no attempt to connect: its queue is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as waiting:
        for _ in range(4):
            first = waiting.enter_context(socket.socket())
            first.setblocking(False)
            first.connect_ex(full.getsockname())
        yield f"http://127.0.0.1:{full.getsockname()[1]}/"
