"""Connections that are used again, against a real server."""

import asyncio
import json

from graphmill.nodes.http.request import Request
from graphmill.nodes.http.url import whole_url
from graphmill.nodes.http.wire import Wire
from support.http_server import Server, reply


def test_what_a_server_sends_unasked_is_nobodys_answer():
    async def ask(server, sent):
        wire = Wire(is_guarded=False)
        try:
            found = []
            for number in range(3):
                request = Request(method="GET", url=whole_url(f"{server.url}/{number}"), headers={})
                found.append((await wire.send(request, most=1000, within_s=None)).body)
                await sent.wait()
                await asyncio.sleep(0.05)  # until it has come
            return found
        finally:
            await wire.close()

    async def main(server):
        loop, sent = asyncio.get_running_loop(), asyncio.Event()

        def answer(seen):
            async def twice(writer):
                writer.write(reply(json.dumps(seen.target).encode()))
                await writer.drain()
                if seen.target == "/0":
                    await asyncio.sleep(0.05)  # not in one piece with the answer
                    writer.write(reply(b'"unasked"'))
                    await writer.drain()
                    loop.call_soon_threadsafe(sent.set)
                return True

            return twice

        server.answer = answer
        return await ask(server, sent)

    with Server() as server:
        assert asyncio.run(main(server)) == [b'"/0"', b'"/1"', b'"/2"']
        assert server.connections == 2
