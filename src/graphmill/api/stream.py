"""A batch whose results a program reads one by one, as they are finished."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import suppress
from typing import Any

from graphmill.api.batch import GraphLike, abatch
from graphmill.core.errors import UsageError
from graphmill.core.result import Result

_OWN = ("keep_results", "deliver")


async def stream(
    graph: GraphLike, items: Iterable[Any] | AsyncIterable[Any], **options: Any
) -> AsyncGenerator[Result, None]:
    """Run a graph over items and yield each result as soon as it is finished, in a recorded run once it is durable.

    The options are those of ``gm.batch``. No more items are read than the window has room for while nobody takes the
    results. Leaving early (``break``) cancels what runs; a recorded run is then paused, and can be resumed. What ends a
    batch early, such as SourceError, is raised after the last result.
    """
    for name in _OWN:
        if name in options:
            raise UsageError(f"gm.stream has no such keyword: {name!r}; it keeps no results")
    results = _Results()
    # A task of its own: what a batch sets in its context must not reach the code that reads its results.
    batch = asyncio.get_running_loop().create_task(results.produce(graph, items, options))
    try:
        async for result in results:
            yield result
        await batch
    finally:
        results.is_left = True
        batch.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait([batch])
        if not batch.cancelled():
            batch.exception()  # whoever left early is not told


class _Results:
    """Hands results over, one at a time: a run goes on when its reader does. ``is_left`` once there is no reader."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Result | None] = asyncio.Queue(1)
        self.is_left = False

    def __aiter__(self) -> AsyncIterator[Result]:
        return self

    async def __anext__(self) -> Result:
        result = await self._queue.get()
        if result is None:
            raise StopAsyncIteration
        return result

    async def produce(self, graph: GraphLike, items: Any, options: dict[str, Any]) -> None:
        """Run the batch to its end."""
        try:
            await abatch(graph, items, keep_results=False, deliver=self._put, **options)
        finally:
            await self._put(None)

    async def _put(self, result: Result | None) -> None:
        if not self.is_left:
            await self._queue.put(result)
