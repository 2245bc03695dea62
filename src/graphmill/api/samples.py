"""The samples of a batch: each item several times, one sample after the other."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Generator, Iterator
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.engine.feed import require_series

MOST_SAMPLES = 10_000


def require_samples(samples: object) -> None:
    """Refuse a number of samples that can not be meant."""
    if type(samples) is not int or not 1 <= samples <= MOST_SAMPLES:
        raise UsageError(f"samples is how often each item is done, 1 to {MOST_SAMPLES:,}, not {samples!r:.80}")


def sampled(items: Any, samples: int) -> Any:
    """Give each item so often, as lazily as it comes; at position p stands sample p % samples + 1 of item p // samples."""
    if samples == 1:
        return items
    require_series(items)
    return _AsyncSampled(items, samples) if isinstance(items, AsyncIterable) else _Sampled(items, samples)


class _Sampled:
    """A plain series, each of whose items is given several times."""

    def __init__(self, items: Any, samples: int) -> None:
        self._items = items
        self._samples = samples
        self.is_stored = isinstance(items, list | tuple | range) or getattr(items, "is_stored", False)

    def __iter__(self) -> Iterator[Any]:
        items = iter(self._items)
        try:
            for item in items:
                for _ in range(self._samples):
                    yield item
        finally:
            if isinstance(items, Generator):
                items.close()


class _AsyncSampled:
    """The same of an async series."""

    def __init__(self, items: AsyncIterable[Any], samples: int) -> None:
        self._items = items
        self._samples = samples

    async def __aiter__(self) -> AsyncIterator[Any]:
        try:
            async for item in self._items:
                for _ in range(self._samples):
                    yield item
        finally:
            if close := getattr(self._items, "aclose", None):
                await close()
