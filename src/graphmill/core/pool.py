"""The pool of connections that requests go over: how long one is link, and that one on which something came unasked is not used again."""

from __future__ import annotations

import select
from asyncio import TimerHandle, get_running_loop
from collections.abc import Callable, Hashable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp import ClientSession, ClientTimeout, TCPConnector
    from aiohttp.connector import Connection

_KEEP_ALIVE_S = 4.0  # less than the 5 s after which many servers hang up: of what is sent in that moment nobody knows whether it was read
_MOST_KEPT = (
    100  # of those that wait, unless more were in use at once: each is an open file, of which a process may have few
)
_CONNECT_S = 10.0
_CONNECT_SHARE = 0.9


class Link:
    """A connection that can be used again, and since when it waits for that."""

    __slots__ = ("_connection", "_poll", "protocol", "since")

    def __init__(self, connection: Connection, protocol: Any) -> None:
        self._connection = connection
        self._poll = select.poll()
        self._poll.register(protocol.transport.get_extra_info("socket").fileno(), select.POLLIN)
        self.protocol = protocol
        self.since = 0.0

    @property
    def is_clean(self) -> bool:
        """Whether nothing of an earlier exchange is left, and the other side has not hung up: what has come would be the next answer."""
        protocol, transport = self.protocol, self._connection.transport
        if transport is None or transport.is_closing() or protocol.should_close or transport.get_write_buffer_size():
            return False
        return not _has_begun_more(protocol._parser) and not self._poll.poll(0)  # also what the loop has not seen yet

    def close(self) -> None:
        """Use it no more; nobody waits for what it has not sent, or for the other side to say good-bye."""
        self.protocol.abort()
        self._connection.close()


class Pool:
    """Connections by whom they lead to; made on the loop that it is used on. aiohttp's own costs as much as the rest of an exchange.

    ``connected`` is called whenever a request has got its connection; options are those of aiohttp's TCPConnector. What goes
    through its ``session`` has a connection of its own each time.
    """

    def __init__(self, *, connected: Callable[[], None] | None = None, **options: Any) -> None:
        self._connected = connected
        self._connector = _connector_class()(connected, **options)
        self._loop = get_running_loop()
        self._idle: dict[Hashable, list[Link]] = {}  # those come last that were used last
        self._count = 0
        self._most = _MOST_KEPT
        self._timer: TimerHandle | None = None

    def idle(self, key: Hashable) -> Link | None:
        """Give a connection that was used before, if one can be used again; the last one first."""
        waiting, oldest = self._idle.get(key), self._loop.time() - _KEEP_ALIVE_S
        while waiting:
            link = waiting.pop()
            self._count -= 1
            if link.since >= oldest and link.is_clean:
                if self._connected is not None:
                    self._connected()
                return link
            link.close()
        return None

    async def connect(self, request: Any, timeout: ClientTimeout) -> Link:  # noqa: ASYNC109  it is for the connection
        """Make a connection."""
        try:
            connection = await self._connector.connect(request, traces=[], timeout=timeout)
        except TimeoutError as error:
            from aiohttp import ConnectionTimeoutError  # noqa: PLC0415

            raise ConnectionTimeoutError from error
        if connection.transport is None:
            from aiohttp import ServerDisconnectedError  # noqa: PLC0415

            connection.close()
            raise ServerDisconnectedError
        self._most = max(self._most, len(self._connector._acquired) - self._count)
        return Link(connection, connection.protocol)

    def keep(self, key: Hashable, link: Link) -> None:
        """Take a connection back on which an exchange has ended well."""
        link.since = self._loop.time()
        waiting = self._idle.pop(key, [])
        waiting.append(link)
        self._idle[key] = waiting
        self._count += 1
        if self._count > self._most:
            self._drop_oldest()
        if self._timer is None:
            self._timer = self._loop.call_later(_KEEP_ALIVE_S, self._clear_out)

    def session(self, **options: Any) -> ClientSession:
        """Give a session over it that does nothing by itself: it keeps no cookie, asks no proxy, decodes and sends nothing again."""
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar  # noqa: PLC0415

        session = ClientSession(
            connector=self._connector,
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=ClientTimeout(total=None),
            **options,
        )
        session._retry_connection = False
        return session

    async def close(self) -> None:
        """Close all connections."""
        if self._timer is not None:
            self._timer.cancel()
        await self._connector.close()  # first: it waits until they are, and a session over it takes it for its own end
        for waiting in self._idle.values():
            for link in waiting:
                link.close()
        self._idle.clear()

    def _drop_oldest(self) -> None:
        """Close the one that waits longest, of those to whom was spoken least lately."""
        while not (waiting := self._idle[key := next(iter(self._idle))]):
            del self._idle[key]
        waiting.pop(0).close()
        self._count -= 1

    def _clear_out(self) -> None:
        """Close what nobody has used for a while."""
        oldest, self._timer = self._loop.time() - _KEEP_ALIVE_S, None
        for key, waiting in list(self._idle.items()):
            for link in waiting:
                if link.since < oldest:
                    link.close()
            self._idle[key] = [link for link in waiting if link.since >= oldest]
            if not self._idle[key]:
                del self._idle[key]
        self._count = sum(map(len, self._idle.values()))
        if self._idle:
            self._timer = self._loop.call_later(_KEEP_ALIVE_S, self._clear_out)


@lru_cache(maxsize=256)
def connect_timeout(within_s: float | None) -> ClientTimeout:
    """Tell how long a connection may take, its name's look-up and TLS included, of the time that there is for all."""
    from aiohttp import ClientTimeout  # noqa: PLC0415

    return ClientTimeout(
        total=None, connect=_CONNECT_S if within_s is None else min(_CONNECT_S, _CONNECT_SHARE * within_s)
    )


@cache
def _connector_class() -> Callable[..., TCPConnector]:
    """Give a TCPConnector that keeps nothing and tells of each connection; it is made at first use, since it needs aiohttp."""
    from aiohttp import TCPConnector  # noqa: PLC0415

    class Connector(TCPConnector):
        def __init__(self, connected: Callable[[], None] | None, **options: Any) -> None:
            super().__init__(limit=0, force_close=True, **options)
            self._connected = connected

        async def connect(self, req: Any, traces: Any, timeout: Any) -> Connection:  # noqa: ASYNC109  as it is there
            connection = await super().connect(req, traces, timeout)
            if self._connected is not None:
                self._connected()
            return connection

    return Connector


def _has_begun_more(parser: Any) -> bool:
    """Tell whether another head was begun behind the answer: at its end a parser gives what it has of one."""
    return parser is not None and parser.feed_eof() is not None
