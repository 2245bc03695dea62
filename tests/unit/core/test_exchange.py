"""An exchange: what goes over the wire, what is read of it, and which connections are used again."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import pytest
from aiohttp import ClientPayloadError, ClientResponseError, ClientTimeout, ServerDisconnectedError
from yarl import URL

from graphmill.core.exchange import Peer, exchange, head_of, with_body
from graphmill.core.pool import Pool

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Told:
    """A server that gives each request the next answer, and notes what it was sent on which connection."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self.socket: socket.socket | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            await self._serve(reader, writer)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.socket = writer.get_extra_info("socket")
        while self.answers and (head := await reader.readuntil(b"\r\n\r\n")):
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            self.requests.append(head + await reader.readexactly(length))
            answer = self.answers.pop(0)
            writer.write(answer)
            if not answer.startswith(OK):
                break


async def read_all(status: int, headers: Mapping[str, str], content: asyncio.StreamReader) -> tuple[int, bytes]:
    del headers
    return status, await content.read()


def asked(
    server: Told,
    times: int = 1,
    read: Callable[..., Awaitable[object]] = read_all,
    headers: Mapping[str, str] | None = None,
    turns: int = 0,
) -> list:
    async def ask() -> list:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        url = URL(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1/ask?a=b%20c", encoded=True)
        pool = Pool()
        try:
            peer = Peer(url)
            sent = with_body(head_of(peer, "POST", url.raw_path_qs, headers or {"x-key": "Grüße"}), b'{"q":1}')
            found = []
            for _ in range(times):
                found.append(await exchange(pool, peer, sent, timeout=ClientTimeout(total=None), read=read))
                for _ in range(turns):
                    await asyncio.sleep(0)
            return found
        finally:
            await pool.close()
            listening.close()

    return asyncio.run(ask())


def test_head_and_body_go_out_as_they_are_and_the_connection_is_used_again():
    server = Told(OK, OK)
    assert asked(server, times=2) == [(200, b"hi"), (200, b"hi")]
    assert server.connections == 1
    head, _, body = server.requests[1].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /v1/ask?a=b%20c HTTP/1.1"
    assert b"x-key: Gr\xc3\xbc\xc3\x9fe" in lines
    assert len([line for line in lines if line.lower().startswith(b"host: 127.0.0.1:")]) == 1
    assert [line for line in lines if line.lower().startswith(b"content-length")] == [b"Content-Length: 7"]
    assert body == b'{"q":1}'


def test_heads_that_only_announce_an_answer_are_passed_over():
    assert asked(Told(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK)) == [
        (200, b"hi")
    ]


def test_a_connection_whose_answer_was_not_read_to_its_end_is_not_used_again():
    async def read_nothing(status: int, headers: Mapping[str, str], content: asyncio.StreamReader) -> int:
        return status

    server = Told(
        b"HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nhalf", b"HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nhalf"
    )
    assert asked(server, times=2, read=read_nothing) == [500, 500]
    assert server.connections == 2


STALE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale"


@pytest.mark.parametrize("more", [STALE, STALE[:10], b"H"], ids=["an answer", "half a head", "a letter"])
def test_a_connection_on_which_more_came_than_the_answer_is_not_used_again(more):
    server = Told(OK + more, OK)
    assert asked(server, times=2) == [(200, b"hi"), (200, b"hi")]
    assert server.connections == 2


@pytest.mark.parametrize("turns", [0, 3], ids=["unseen by the loop", "seen by the loop"])
@pytest.mark.parametrize("more", [STALE, STALE[:10], b""], ids=["an answer", "half a head", "its end"])
def test_a_connection_on_which_something_came_after_its_answer_is_not_used_again(more, turns):
    async def read_while_more_comes(
        status: int, headers: Mapping[str, str], content: asyncio.StreamReader
    ) -> tuple[int, bytes]:
        made = await read_all(status, headers, content)
        if len(server.requests) == 1:
            os.write(server.socket.fileno(), more) if more else server.socket.shutdown(socket.SHUT_WR)
        return made

    server = Told(OK, OK)
    assert asked(server, times=2, read=read_while_more_comes, turns=turns) == [(200, b"hi"), (200, b"hi")]
    assert server.connections == 2


def test_of_connections_to_many_only_the_last_are_kept():
    async def kept() -> list[int]:
        writers: list[asyncio.StreamWriter] = []
        listening = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
        peer, pool = Peer(URL(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/")), Pool()
        try:
            for number in range(150):
                pool.keep(number, await pool.connect(peer.request, ClientTimeout(total=None)))
            found = [(number, pool.idle(number)) for number in range(150)]
            for _, each in found:
                if each is not None:
                    each.close()
            return [number for number, each in found if each is not None]
        finally:
            await pool.close()
            listening.close()
            for writer in writers:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()

    assert asyncio.run(kept()) == list(range(50, 150))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", ServerDisconnectedError),
        (b"SMTP ready\r\n\r\n", ClientResponseError),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", ClientResponseError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", ClientPayloadError),
    ],
    ids=["nothing", "no HTTP", "a head that is too large", "a body that is cut"],
)
def test_what_is_no_whole_answer_is_an_error_after_one_request(answer, error):
    server = Told(answer, OK)
    with pytest.raises(error):
        asked(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "a\0"])
def test_a_header_can_not_end_its_line(value):
    server = Told(OK)
    with pytest.raises(ValueError, match="an address or a header"):
        asked(server, headers={"x-key": value})
    assert server.requests == []


@pytest.mark.parametrize("path", ["/a b", "/a\r\nx: y", "/a\tb"])
def test_an_address_can_not_end_the_first_line(path):
    async def head() -> bytes:
        return head_of(Peer(URL("http://127.0.0.1/")), "POST", path, {})

    with pytest.raises(ValueError, match="an address or a header"):
        asyncio.run(head())
