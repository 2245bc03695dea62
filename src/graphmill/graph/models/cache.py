"""Cached answers: the key of a call, one request for identical calls under way, and stored answers."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from graphmill.core.json import canonical, digest
from graphmill.core.model_call import ModelRequest
from graphmill.graph.models.answer import AnswerSchema
from graphmill.graph.models.target import ModelTarget
from graphmill.graph.node_type import Context
from graphmill.graph.secrets import Secret

_FORMAT = 2
_TEMPERATURE = "temperature"
_REAL = (_TEMPERATURE, "top_p")
T = TypeVar("T")
_LEADS = object()
_NOTHING = object()


def is_cacheable(target: ModelTarget, request: ModelRequest, cache: bool | None) -> bool:  # noqa: FBT001
    """Tell whether an answer may be used again: where that is asked for, or where the same is to be expected, at temperature 0."""
    if cache is False or not getattr(target.provider, "is_cached", True):
        return False
    return cache is True or (request.temperature == 0 and all(value == 0 for value in _temperatures(request.extra)))


def content_key(target: ModelTarget, request: ModelRequest, schema: AnswerSchema | None) -> bytes | None:
    """Give the key; None for a call that can not be made, which says so itself."""
    try:
        return digest(canonical([_FORMAT, *_where(target), asked(request, schema), max(1, request.origin.sample)]))
    except (TypeError, ValueError, RecursionError, KeyError):
        return None


def asked(request: ModelRequest, schema: AnswerSchema | None) -> list[Any]:
    """Give as data what is asked, whoever is; a temperature of 0 is one of 0.0."""
    sent: dict[str, Any] = msgspec.to_builtins(request)
    del sent["origin"]
    for name in _REAL:
        if isinstance(sent[name], int):
            sent[name] = float(sent[name])
    return [sent, None if schema is None else schema.json]


def _where(target: ModelTarget) -> list[Any]:
    """Tell who is asked: secrets by their names, and of an address that may hold one, host and path alone."""
    setting, parts = target.setting, urlsplit(target.address)
    query = parts.query if isinstance(setting.address, str) else ""
    headers = {
        name: {"env": value.name} if isinstance(value, Secret) else value for name, value in setting.headers.items()
    }
    return [target.provider.name, parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, headers]


def _temperatures(extra: Mapping[str, Any]) -> Iterator[Any]:
    """Find what is put over the temperature, at any depth."""
    for name, value in extra.items():
        if name == _TEMPERATURE:
            yield value
        elif isinstance(value, Mapping):
            yield from _temperatures(value)


class _Waiter:
    """Somebody who waits, on a loop of their own; ``told`` is the answer, or that it is now for them to ask."""

    __slots__ = ("future", "loop", "told")

    def __init__(self) -> None:
        self.loop: AbstractEventLoop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self.loop.create_future()
        self.told: Any = _NOTHING

    def tell(self, told: Any) -> bool:
        """Tell it, from any thread; False for one whose loop is gone."""
        self.told = told
        try:
            self.loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            return False
        return True

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class Flights(Generic[T]):
    """The calls under way of one process, by their content keys.

    A failure is its own caller's alone: the next who waits then asks, one at a time. So it is when a caller is cancelled.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[bytes, deque[_Waiter]] = {}

    async def once(self, key: bytes, ask: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Give the answer, and whether it was asked for here."""
        waiter = self._join(key)
        if waiter is not None and (told := await self._wait(key, waiter)) is not _LEADS:
            return told, False
        try:
            answer = await ask()
        except BaseException:
            self._pass_on(key)
            raise
        self._land(key, answer)
        return answer, True

    def _join(self, key: bytes) -> _Waiter | None:
        """Begin a call, or wait for one that is under way."""
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
                leads = waiter.told is _LEADS
                if waiter.told is _NOTHING:
                    self._waiting[key].remove(waiter)
            if leads:
                self._pass_on(key)
            raise
        return waiter.told

    def _pass_on(self, key: bytes) -> None:
        """Let the next one ask; nobody, if nobody waits."""
        with self._lock:
            waiting = self._waiting[key]
            while waiting:
                if waiting.popleft().tell(_LEADS):
                    return
            del self._waiting[key]

    def _land(self, key: bytes, answer: T) -> None:
        with self._lock:
            for waiter in self._waiting.pop(key):
                waiter.tell(answer)


class Keeper(Protocol):
    """Keeps answers for a run; nothing that is wrong with it is raised."""

    async def find(self, key: bytes) -> bytes | None:
        """Give what is kept by this key."""

    def keep(self, key: bytes, model: str, body: bytes) -> None:
        """Keep an answer, some time soon."""


class Keeping(Protocol):
    """Says who keeps the answers of a run."""

    def __call__(self, context: Context, *, is_wanted: bool) -> Keeper | None:
        """Give the keeper; None where nothing is kept, or only what somebody asks for and this is not."""


# Set by whoever begins a run: those that only look at workflows need not know of files.
keeping: ContextVar[Keeping | None] = ContextVar("graphmill_keeping", default=None)


_flights: Flights[Any] = Flights()


class Kept(Generic[T]):
    """``written`` gives what is kept of an answer, ``read`` the answer back, or None for what can not be used."""

    def __init__(
        self, key: bytes, model: str, *, written: Callable[[T], bytes], read: Callable[[bytes], T | None]
    ) -> None:
        self._key = key
        self._model = model
        self._written = written
        self._read = read

    async def once(self, context: Context, ask: Callable[[], Awaitable[T]], *, is_wanted: bool) -> tuple[T, bool]:
        """Give the answer, and whether it was asked for here; it is kept where the run is recorded, or where that ``is_wanted``."""
        keeper = _keeper(context, is_wanted=is_wanted)
        (made, is_asked), leads = await _flights.once(self._key, partial(self._found_or_asked, keeper, ask))
        return made, is_asked and leads

    async def found(self, context: Context, *, is_wanted: bool) -> T | None:
        """Give the answer if it is kept."""
        return await self._found(_keeper(context, is_wanted=is_wanted))

    async def _found(self, keeper: Keeper | None) -> T | None:
        body = None if keeper is None else await keeper.find(self._key)
        return None if body is None else self._read(body)

    async def _found_or_asked(self, keeper: Keeper | None, ask: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        if (known := await self._found(keeper)) is not None:
            return known, False
        made = await ask()
        if keeper is not None:
            keeper.keep(self._key, self._model, self._written(made))
        return made, True


def _keeper(context: Context, *, is_wanted: bool) -> Keeper | None:
    kept_by = keeping.get()
    return None if kept_by is None else kept_by(context, is_wanted=is_wanted)
