"""The surroundings of a call that belongs to no run: nothing is recorded, and nothing tried again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Self

from graphmill.engine.shared import C, Shared
from graphmill.graph.node_type import Context

_CLOSE_S = 5.0


class Alone(Context):
    """What calls share while it is entered is closed when it is left."""

    __slots__ = ("_shared",)

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._shared = Shared()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._shared.close(_CLOSE_S)

    def shared(self, key: Hashable, make: Callable[[], C]) -> C:
        """Give what goes by this key, made now if nobody asked for it before."""
        return self._shared.get(key, make)
