"""The HTTP client: what goes over the wire, what is read of it, and which connections are used again."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress

import pytest

from graphmill.http.connection import HttpClient
from graphmill.http.faults import (
    ForbiddenAddressError,
    HttpError,
    InvalidRequestError,
    NotSentError,
    ResponseTooLargeError,
)
from support.http_server import unreachable

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
STALE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale"


class ScriptedServer:
    """Gives each request the next response, and notes what it was sent on which connection; closes after other than OK."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = self.open = 0
        self.socket: socket.socket | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.socket = writer.get_extra_info("socket")
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
                self.requests.append(head + await reader.readexactly(length))
                answer = self.answers.pop(0)
                writer.write(answer)
                if not answer.startswith(OK):
                    break
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self.open -= 1


def send(
    server, times=1, method="POST", path="/v1/ask?a=b%20c", body=b'{"q":1}', headers=None, between=None, **options
):
    async def main():
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        client = HttpClient(**options)
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}{path}"
        try:
            found = []
            for _ in range(times):
                response = await client.send(method, url, headers=headers or {}, body=body, max_bytes=1000)
                found.append((response.status, response.body))
                if between is not None:
                    await between(server)
            return found
        finally:
            await client.close()
            listening.close()
            while server.open:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    return asyncio.run(main())


def test_head_and_body_are_sent_as_given_and_the_connection_is_used_again():
    server = ScriptedServer(OK, OK)
    assert send(server, times=2, headers={"x-key": "Grüße"}) == [(200, b"hi")] * 2
    assert server.connections == 1
    head, _, body = server.requests[1].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /v1/ask?a=b%20c HTTP/1.1"
    assert b"x-key: Gr\xc3\xbc\xc3\x9fe" in lines
    assert len([line for line in lines if line.lower().startswith(b"host: 127.0.0.1:")]) == 1
    assert [line.lower() for line in lines if line.lower().startswith(b"content-")] == [b"content-length: 7"]
    assert body == b'{"q":1}'


def test_interim_responses_are_skipped():
    server = ScriptedServer(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK)
    assert send(server) == [(200, b"hi")]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
@pytest.mark.parametrize("is_used", [False, True], ids=["new connection", "used connection"])
def test_a_request_whose_connection_is_dropped_is_not_sent_again(method, is_used):
    server = ScriptedServer(*[OK] * is_used, b"", OK)
    with pytest.raises(HttpError, match="connection closed"):
        send(server, times=1 + is_used, method=method)
    assert len(server.requests) == 1 + is_used


def test_a_connection_whose_response_was_not_read_to_its_end_is_not_used_again():
    server = ScriptedServer(OK.replace(b"200 OK", b"200 OK\r\nContent-Encoding: br"), OK)
    with pytest.raises(HttpError, match="encoding"):
        send(server)
    server = ScriptedServer(b"HTTP/1.1 500 Oops\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 70_000, OK)
    assert [status for status, _ in send(server, times=2)] == [500, 200]
    assert server.connections == 2


def test_a_connection_on_which_more_came_than_the_response_is_not_used_again():
    server = ScriptedServer(OK + STALE, OK)
    assert send(server, times=2) == [(200, b"hi")] * 2
    assert server.connections == 2


@pytest.mark.parametrize("turns", [0, 3], ids=["unseen by the loop", "seen by the loop"])
@pytest.mark.parametrize("more", [STALE, b""], ids=["a response", "its end"])
def test_a_connection_on_which_something_came_after_its_response_is_not_used_again(more, turns):
    async def more_comes(server):
        if len(server.requests) == 1:
            os.write(server.socket.fileno(), more) if more else server.socket.shutdown(socket.SHUT_WR)
        for _ in range(turns):
            await asyncio.sleep(0)

    server = ScriptedServer(OK, OK)
    assert send(server, times=2, between=more_comes) == [(200, b"hi")] * 2
    assert server.connections == 2


def test_a_server_that_speaks_first_is_an_error_not_a_loop():
    class Greeting(ScriptedServer):
        async def serve(self, reader, writer):
            writer.write(b"220 mail ready\r\n")
            await super().serve(reader, writer)

    server = Greeting(OK)
    with pytest.raises(HttpError):
        send(server)
    assert server.connections == 1


def test_few_idle_connections_stay_open():
    async def main():
        held, open_now = [], set()

        async def serve(reader, writer):
            open_now.add(writer)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK)
            with suppress(ConnectionError):
                await reader.read()
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            open_now.discard(writer)

        client = HttpClient()
        try:
            for _ in range(130):
                listening = await asyncio.start_server(serve, "127.0.0.1", 0)
                held.append(listening)
                port = listening.sockets[0].getsockname()[1]
                await client.send("GET", f"http://127.0.0.1:{port}/", headers={}, max_bytes=100)
            await asyncio.sleep(0.05)
            return len(open_now)
        finally:
            await client.close()
            for listening in held:
                listening.close()
            while open_now:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    assert 90 <= asyncio.run(main()) <= 110


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "connection closed before the response"),
        (b"SMTP ready\r\n\r\n", "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "cut off"),
    ],
    ids=["nothing", "no HTTP", "a head that is too large", "a body that is cut"],
)
def test_what_is_no_whole_response_is_an_error_after_one_request(answer, message):
    server = ScriptedServer(answer, OK)
    with pytest.raises(HttpError, match=message):
        send(server)
    assert len(server.requests) == 1


def test_a_body_that_announces_too_much_is_refused():
    with pytest.raises(ResponseTooLargeError, match="larger than 1,000 bytes"):
        send(ScriptedServer(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n"))


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "a\0"])
def test_a_header_cannot_end_its_line(value):
    server = ScriptedServer(OK)
    with pytest.raises(InvalidRequestError):
        send(server, headers={"x-key": value})
    assert server.requests == []


@pytest.mark.parametrize("path", ["/a b", "/a\r\nx: y", "/a\tb"])
def test_a_url_cannot_end_the_first_line(path):
    server = ScriptedServer(OK)
    with pytest.raises(InvalidRequestError):
        send(server, path=path)
    assert server.connections == 0


def test_an_address_that_is_not_allowed_is_not_connected_to():
    server = ScriptedServer(OK)
    with pytest.raises(ForbiddenAddressError):
        send(server, is_allowed=lambda address: address != "127.0.0.1")
    assert server.connections == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only here is a connection beyond the backlog left waiting")
def test_a_connection_has_its_own_time_limit():
    async def main(url):
        client = HttpClient(connect_s=0.05)
        try:
            await client.send("POST", url, headers={}, body=b"{}", max_bytes=100)
        finally:
            await client.close()

    with unreachable() as url, pytest.raises(NotSentError, match="timed out while connecting"):
        asyncio.run(main(url))
