"""A server of our own that plays a provider on this machine: it logs what arrives, byte by byte, and answers, or fails, as it is told."""

import asyncio
import gzip
import json
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field

_STARTED_S = 30


@dataclass
class Asked:
    """One request as it came over the wire."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def data(self):
        return json.loads(self.body)


def reply(data=b"", status=200, *, headers=(), kind="application/json"):
    """Write a whole answer; data that is not bytes is sent as JSON."""
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    lines = [f"HTTP/1.1 {status} Said", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in dict(headers).items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def chunked(body, *, is_cut):
    """Write an answer in two chunks; one that is cut ends within the second."""
    half = len(body) // 2
    head = b"HTTP/1.1 200 Said\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    first = b"%x\r\n%s\r\n" % (half, body[:half])
    second = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body) - half, body[half:])
    return head + first + (second[: len(second) // 2] if is_cut else second)


def gzipped(body):
    """Write an answer that is compressed."""
    return reply(gzip.compress(body), headers={"Content-Encoding": "gzip"})


def then_closed(written):
    """Send bytes, then hang up."""

    async def play(writer):
        writer.write(written)
        await writer.drain()
        return False

    return play


def then_half_open(written):
    """Send bytes and say that no more will come, but keep the connection."""

    async def play(writer):
        writer.write(written)
        await writer.drain()
        writer.write_eof()
        return await asyncio.Event().wait()

    return play


def silent():
    """Never answer."""

    async def play(_):
        return await asyncio.Event().wait()

    return play


def dripping(written, *, every_s):
    """Send an answer byte by byte."""

    async def play(writer):
        for byte in written:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(every_s)

    return play


def flooding(beginning, piece):
    """Send the same piece for ever."""

    async def play(writer):
        writer.write(beginning)
        while True:
            writer.write(piece)
            await writer.drain()

    return play


def reset_after(written):
    """Send bytes, then break the connection as a crash does."""

    async def play(writer):
        writer.write(written)
        await writer.drain()
        broken(writer)
        return False

    return play


def broken(writer):
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@dataclass
class ModelServer:
    """Answers each request with what ``answer(asked)`` gives: bytes, or a coroutine function of a writer. ``is_deaf`` resets all."""

    answer: object = None
    is_deaf: bool = False
    asked: list[Asked] = field(default_factory=list)
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
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    async def _serve(self):
        self._loop, self._over, tasks = asyncio.get_running_loop(), asyncio.Event(), set()

        def begin(reader, writer):
            task = self._loop.create_task(self._talk(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(begin, "127.0.0.1", 0, limit=1 << 24)
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
                if self.is_deaf:
                    broken(writer)
                    return
                while await self._exchange(reader, writer, number):
                    pass
        finally:
            writer.transport.abort() if writer.is_closing() else writer.close()

    async def _exchange(self, reader, writer, number):
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        asked = Asked(method, target, headers, await reader.readexactly(int(headers.get("content-length", "0"))), number)
        self.asked.append(asked)
        made = self.answer(asked)
        if callable(made):
            return await made(writer)
        writer.write(made)
        await writer.drain()
        return True
