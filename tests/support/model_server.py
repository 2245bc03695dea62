"""A server of our own that plays a provider on this machine: it logs what arrives, byte by byte, and answers, or fails, as it is told."""

import asyncio
import gzip
import json
import socket
import struct
from dataclasses import dataclass, field

from support import http_server


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
    return http_server.reply(body, status, kind, headers=dict(headers).items())


def said(text, reason="stop", **more):
    """Write an answer as servers of the OpenAI protocol do."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **more}, "finish_reason": reason}
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    return reply({"id": "c1", "object": "chat.completion", "model": "m-1", "choices": [choice], "usage": usage})


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
class ModelServer(http_server.Server):
    """A server that is asked as a provider is. ``is_deaf`` resets all."""

    answer: object = None
    is_deaf: bool = False
    asked: list[Asked] = field(default_factory=list)

    def noted(self, seen):
        headers = {name: value.decode("latin-1") for name, value in seen.headers}
        self.asked.append(Asked(seen.method, seen.target, headers, seen.body, seen.connection))
        return self.asked[-1]

    async def _exchange(self, reader, writer, number):
        if self.is_deaf:
            broken(writer)
            return False
        return await super()._exchange(reader, writer, number)
