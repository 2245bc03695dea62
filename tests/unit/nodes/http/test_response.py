"""What an http node makes of a request that ends early."""

import asyncio
import sys

import pytest

from graphmill.core.errors import Transient
from graphmill.nodes.http.request import OutgoingRequest, parse_url
from graphmill.nodes.http.response import ResponseRules, fetch
from support.http_server import Server, unreachable


class Alone:
    """As much of a context as a request needs."""

    timeout_s = None

    def __init__(self):
        self.clients = []

    def shared(self, key, make):
        self.clients.append(make())
        return self.clients[-1]


def cancelled(url, within_s):
    async def main():
        context = Alone()
        request = OutgoingRequest(method="POST", url=parse_url(url), headers={}, body=b"{}")
        rules = ResponseRules(allow_hosts=(), max_bytes=100, ok_codes=())
        try:
            async with asyncio.timeout(within_s):
                await fetch(request, context, rules, is_host_written=True)
        finally:
            for client in context.clients:
                await client.close()

    return asyncio.run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="only here is a connection beyond the backlog left waiting")
def test_a_request_that_is_cancelled_while_connecting_is_unsent():
    with unreachable() as url, pytest.raises(Transient) as caught:
        cancelled(url, 0.1)
    assert caught.value.is_unsent


def test_a_request_that_is_cancelled_later_may_have_been_sent():
    async def never(writer):
        await asyncio.Event().wait()

    with Server(answer=lambda seen: never) as server, pytest.raises(TimeoutError):
        cancelled(server.url, 0.2)
    assert len(server.seen) == 1
