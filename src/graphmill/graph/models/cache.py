"""Cached answers: the key of a call, a single request for identical calls at one moment, and stored answers."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from graphmill.core.json import canonical, digest
from graphmill.core.model_call import NO_ORIGIN, ModelRequest
from graphmill.graph.models.answer import AnswerSchema
from graphmill.graph.models.target import ModelTarget
from graphmill.graph.node_type import Context
from graphmill.graph.secrets import Secret

_FORMAT = 2
_REAL = ("temperature", "top_p")
T = TypeVar("T")
_LEADS = object()
_NOTHING = object()


def content_key(target: ModelTarget, request: ModelRequest, schema: AnswerSchema | None) -> bytes | None:
    """Return the key of a call; None for an invalid call, which fails by itself."""
    try:
        return digest(
            canonical([_FORMAT, *_where(target), request_data(request, schema), max(1, request.origin.sample)])
        )
    except (TypeError, ValueError, RecursionError, KeyError):
        return None


def request_data(request: ModelRequest, schema: AnswerSchema | None) -> list[Any]:
    """Return a request as data, without its origin; a temperature of 0 equals 0.0."""
    sent: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(request, origin=NO_ORIGIN))
    del sent["origin"]
    for name in _REAL:
        if isinstance(sent[name], int):
            sent[name] = float(sent[name])
    return [sent, None if schema is None else schema.json]


def _where(target: ModelTarget) -> list[Any]:
    """Return where a call goes: secrets by name, and of an address that may contain one only host and path."""
    setting, parts = target.setting, urlsplit(target.address)
    query = parts.query if isinstance(setting.address, str) else ""
    headers: dict[str, Any] = dict(setting.headers)
    for name, value in headers.items():
        if isinstance(value, Secret):
            headers[name] = {"env": value.name}
    return [target.provider.name, parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, headers]


class _Waiter:
    """A caller that waits on its own loop; ``answer`` may also say that it must make the call itself."""

    __slots__ = ("answer", "future", "loop")

    def __init__(self) -> None:
        self.loop: AbstractEventLoop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self.loop.create_future()
        self.answer: Any = _NOTHING

    def resolve(self, answer: Any) -> bool:
        """Pass the answer on, from any thread; False if the caller's loop is closed."""
        self.answer = answer
        try:
            self.loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            return False
        return True

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class SingleFlight(Generic[T]):
    """Makes one request for identical calls at one moment, in all threads of the process.

    A failure or a cancellation concerns only the caller that made the request; then the next waiting caller makes it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[bytes, deque[_Waiter]] = {}

    async def once(self, key: bytes, ask: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Return the answer, and whether this caller asked for it."""
        waiter = self._join(key)
        if waiter is not None:
            shared = await self._wait(key, waiter)
            if shared is not _LEADS:
                return shared, False
        try:
            answer = await ask()
        except BaseException:
            self._pass_on(key)
            raise
        self._finish(key, answer)
        return answer, True

    def _join(self, key: bytes) -> _Waiter | None:
        """Start a call (None), or wait for one that is running."""
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is None:
                self._waiting[key] = deque()
                return None
            waiter = _Waiter()
            waiting.append(waiter)
            return waiter

    async def _wait(self, key: bytes, waiter: _Waiter) -> Any:
        try:
            await waiter.future
        except BaseException:
            with self._lock:
                leads = waiter.answer is _LEADS
                if waiter.answer is _NOTHING:
                    self._waiting[key].remove(waiter)
            if leads:
                self._pass_on(key)
            raise
        return waiter.answer

    def _pass_on(self, key: bytes) -> None:
        """Let the next waiting caller ask."""
        with self._lock:
            waiting = self._waiting[key]
            while waiting:
                if waiting.popleft().resolve(_LEADS):
                    return
            del self._waiting[key]

    def _finish(self, key: bytes, answer: T) -> None:
        with self._lock:
            for waiter in self._waiting.pop(key):
                waiter.resolve(answer)


class AnswerStore(Protocol):
    """Stores answers for a run; its own errors are never raised."""

    async def find(self, key: bytes) -> bytes | None:
        """Return the stored answer; None if there is none."""

    def keep(self, key: bytes, model: str, body: bytes) -> None:
        """Store an answer soon."""


class OpenAnswerStore(Protocol):
    """Opens the store of a run's answers."""

    def __call__(self, context: Context, *, is_wanted: bool) -> AnswerStore | None:
        """Return the store; None if nothing is stored, or only what ``is_wanted``."""


# Set when a run starts, so that code that only reads workflows need not know about files.
open_answer_store: ContextVar[OpenAnswerStore | None] = ContextVar("graphmill_answer_store", default=None)


_single_flight: SingleFlight[Any] = SingleFlight()


class CachedCall(Generic[T]):
    """A call whose answer may be cached: ``encode`` returns what is stored, ``decode`` the answer or None."""

    def __init__(
        self, key: bytes, model: str, *, encode: Callable[[T], bytes], decode: Callable[[bytes], T | None]
    ) -> None:
        self._key = key
        self._model = model
        self._encode = encode
        self._decode = decode

    async def once(self, context: Context, ask: Callable[[], Awaitable[T]], *, is_wanted: bool) -> tuple[T, bool]:
        """Return the answer, and whether this caller asked for it. Stored if the run is recorded or ``is_wanted``."""
        store = _store(context, is_wanted=is_wanted)
        (made, is_asked), leads = await _single_flight.once(self._key, partial(self._find_or_ask, store, ask))
        return made, is_asked and leads

    async def find(self, context: Context, *, is_wanted: bool) -> T | None:
        """Return the stored answer; None if there is none."""
        return await self._find(_store(context, is_wanted=is_wanted))

    async def _find(self, store: AnswerStore | None) -> T | None:
        if store is None:
            return None
        body = await store.find(self._key)
        return None if body is None else self._decode(body)

    async def _find_or_ask(self, store: AnswerStore | None, ask: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        if (known := await self._find(store)) is not None:
            return known, False
        made = await ask()
        if store is not None:
            store.keep(self._key, self._model, self._encode(made))
        return made, True


def _store(context: Context, *, is_wanted: bool) -> AnswerStore | None:
    opened = open_answer_store.get()
    return None if opened is None else opened(context, is_wanted=is_wanted)
