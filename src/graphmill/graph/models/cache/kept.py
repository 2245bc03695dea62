"""An answer that may be used again: the way to it, past the calls under way and what is kept, to whoever must be asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from graphmill.graph.models.cache.flights import Flights
from graphmill.graph.node_type import Context

T = TypeVar("T")
_flights: Flights[Any] = Flights()


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
