"""What the attempts of one run share, such as a pool of connections: made at first use, closed when the run ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

from graphmill.core.errors import UsageError, described

log = logging.getLogger("graphmill")


class Closable(Protocol):
    """Something that holds on to a part of the world until it is closed."""

    async def close(self) -> None:
        """Let go of it."""


C = TypeVar("C", bound=Closable)


class Shared:
    """Things by key, each made once, on the run's loop."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._is_closed = False

    def get(self, key: Hashable, make: Callable[[], C]) -> C:
        """Give what goes by this key, made now if nobody asked for it before."""
        made: C | None = self._made.get(key)
        if made is None:
            if self._is_closed:
                raise UsageError("the run has ended, and with it what its attempts share")
            made = self._made[key] = make()
        return made

    async def close(self, within_s: float) -> None:
        """Close all, the last made first; one that fails or hangs keeps no other from it."""
        self._is_closed = True
        while self._made:
            key, made = self._made.popitem()
            try:
                async with asyncio.timeout(within_s):
                    await made.close()
            except Exception as error:  # noqa: BLE001  what it held is lost in any case
                log.warning("closing what goes by %r raised %s", key, described(error))
