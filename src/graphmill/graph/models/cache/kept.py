"""An answer that may be used again: the way to it, past the calls under way and what is kept, to whoever must be asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Generic, TypeVar

from graphmill.graph.models.cache.flights import Flights
from graphmill.graph.models.cache.keeper import Keeper
from graphmill.graph.models.cache.place import cache_place
from graphmill.graph.node_type import Context
from graphmill.journal.sqlite.cache_file import Answer

T = TypeVar("T")
_flights: Flights[Any] = Flights()


class Kept(Generic[T]):
    """``written`` gives what is kept of an answer, ``read`` the answer back, or None for what can not be used."""

    def __init__(self, key: bytes, model: str, *, written: Callable[[T], bytes], read: Callable[[bytes], T | None]) -> None:
        self._key = key
        self._model = model
        self._written = written
        self._read = read

    async def once(self, context: Context, ask: Callable[[], Awaitable[T]], *, is_wanted: bool) -> tuple[T, bool]:
        """Give the answer, and whether it was asked for here; it is kept where the run is recorded, or where that ``is_wanted``."""
        keeper = _keeper(context, is_wanted=is_wanted)
        (made, is_asked), leads = await _flights.once(self._key, partial(self._found_or_asked, keeper, ask))
        return made, is_asked and leads

    async def _found_or_asked(self, keeper: Keeper | None, ask: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        if keeper is None:
            return await ask(), True
        body = await keeper.find(self._key)
        if body is not None and (made := self._read(body)) is not None:
            return made, False
        made = await ask()
        keeper.keep(Answer(self._key, self._model, self._written(made)))
        return made, True


def _keeper(context: Context, *, is_wanted: bool) -> Keeper | None:
    path = cache_place(is_wanted=is_wanted)
    return None if path is None else context.shared(("cache", path), partial(Keeper, path))
