"""Admission: takes items from the source as they are needed, and keeps the window full, never fuller."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Sized,
)
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from graphmill.core.errors import (
    ChangedError,
    GraphmillError,
    JournalError,
    SourceError,
    UsageError,
    describe_error,
    message_of,
)
from graphmill.core.job import Job
from graphmill.engine.attempts.threads import Mailbox, Threads
from graphmill.engine.attempts.workers import Workers
from graphmill.engine.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from graphmill.engine.engine import Engine

Bind = Callable[[int, Any], Job]
OnItem = Callable[[int, Any], None]  # called with the position and the item, for each that was requested
OnEnd = Callable[[int, BaseException | None], None]  # called once, with their number and what the source raised
Feed: TypeAlias = "ContainerFeed | ThreadFeed | AsyncFeed"

_CONTAINERS = (list, tuple, range, deque)
_MAX_PER_TURN = 1000  # so that no turn of the loop is long


class Admission:
    """Asks the source for as many items as there is room for, and admits them as they come."""

    def __init__(self, engine: Engine, scheduler: Scheduler, workers: Workers, *, bind: Bind | None) -> None:
        self._engine = engine
        self._scheduler = scheduler
        self._workers = workers
        self._bind = bind
        self._feed: Feed | None = None
        self._requested = 0
        self.is_over = False
        self.is_at_end = False
        self.is_reordered = False

    def open(self, jobs: Any, *, in_order: bool) -> None:
        """Begin to take jobs. A list is sorted by priority first, unless results are wanted in input order."""
        if self.is_over:
            return
        if self._bind is None and isinstance(jobs, list | tuple) and not in_order and _has_priorities(jobs):
            self.is_reordered = True
            entries = sorted(enumerate(jobs), key=lambda entry: -entry[1].priority)
            self._feed = ContainerFeed(iter(entries), self._on_item, self._on_end)
        elif isinstance(jobs, _CONTAINERS):
            self._feed = ContainerFeed(enumerate(jobs), self._on_item, self._on_end)
        elif isinstance(jobs, AsyncIterable):
            self._feed = AsyncFeed(jobs, self._workers, self._on_item, self._on_end)
        else:
            self._feed = ThreadFeed(jobs, self._on_item, self._on_end)
        self.refill()

    def refill(self) -> None:
        """Ask for more items: as soon as slots would stay empty, else only when there is room for a good number."""
        if self.is_over or self._feed is None:
            return
        scheduler = self._scheduler
        room = min(scheduler.window - scheduler.unfinished - self._requested, _MAX_PER_TURN)
        is_hungry = scheduler.queued + self._requested < scheduler.limit
        if room >= 1 and (is_hungry or room >= min(scheduler.window // 4, _MAX_PER_TURN)):
            self._requested += room
            self._feed.request(room)

    def close(self) -> None:
        """Admit nothing more."""
        self.is_over = True
        if self._feed is not None:
            self._feed.close()

    async def wait_closed(self, grace_s: float) -> None:
        """Wait at most this long for the source's thread; the workers end the task of an async source."""
        if isinstance(self._feed, ThreadFeed):
            await self._feed.wait_closed(grace_s)

    def _on_item(self, position: int, item: Any) -> None:
        self._requested -= 1
        if self.is_over:
            return
        try:
            job = item if self._bind is None else self._bind(position, item)
            self._scheduler.admit(job, position=position, now=self._workers.loop.time())
        except Exception as error:  # noqa: BLE001  whatever a source yields or a binder raises is the source's failure
            self._on_end(position, error)
        else:
            self._engine.schedule_starts()

    def _on_end(self, count: int, error: BaseException | None) -> None:
        self.close()
        self.is_at_end = error is None
        self._engine.source_ended(count, None if error is None else _source_error(count, error))


def _has_priorities(jobs: Sequence[Any]) -> bool:
    return any(isinstance(job, Job) and job.priority for job in jobs) and all(isinstance(job, Job) for job in jobs)


def _source_error(position: int, error: BaseException) -> GraphmillError:
    if isinstance(error, SourceError | ChangedError | JournalError):
        return error
    reason = message_of(error) if isinstance(error, GraphmillError) else describe_error(error)
    found = SourceError(f"the source failed after {position:,} items: {reason}", position=position)
    found.__cause__ = error
    return found


def require_series(items: object) -> None:
    """Refuse anything that is not an iterable of items."""
    if isinstance(items, (str, bytes, Mapping)):
        raise UsageError(
            f"items must be an iterable of items, not a {type(items).__name__}; gm.source(path) reads a file"
        )
    if hasattr(items, "columns") and not isinstance(items, AsyncIterable):
        raise UsageError(
            f"items must be an iterable of rows, and a {type(items).__name__} iterates its columns; pass "
            "df.to_dict('records')"
        )
    if not isinstance(items, (Iterable, AsyncIterable)) and not hasattr(items, "__getitem__"):
        raise UsageError(
            f"items must be iterable, got {items!r:.80}; pass a list, a generator, or a called async generator"
        )


def known_length(items: object) -> int | None:
    """Return how many items there will be, if that costs nothing."""
    if isinstance(items, Sized):
        return len(items)
    return None


class ContainerFeed:
    """Reads a container on the loop: one in memory can't block."""

    def __init__(self, entries: Iterator[tuple[int, Any]], on_item: OnItem, on_end: OnEnd) -> None:
        self._entries = entries
        self._on_item = on_item
        self._on_end = on_end
        self._taken = 0
        self._is_closed = False

    def request(self, count: int) -> None:
        """Take this many items now."""
        for _ in range(count):
            if self._is_closed:
                return
            try:
                entry = next(self._entries)
            except StopIteration:
                self._end(None)
                return
            except RuntimeError as error:  # a deque was changed meanwhile
                self._end(error)
                return
            self._taken += 1
            self._on_item(*entry)

    def close(self) -> None:
        """Take no more."""
        self._is_closed = True

    def _end(self, error: BaseException | None) -> None:
        self._is_closed = True
        self._on_end(self._taken, error)


class ThreadFeed:
    """Reads any other iterable in one thread of its own: it may block in ``next``."""

    def __init__(self, items: Iterable[Any], on_item: OnItem, on_end: OnEnd) -> None:
        loop = asyncio.get_running_loop()
        self._items = items
        self._iterator: Iterator[Any] | None = None
        self._on_item = on_item
        self._on_end = on_end
        self._threads = Threads(loop, "graphmill-source", most=1)
        self._mailbox = Mailbox(loop, self._receive)
        self._asked = 0
        self._taken = 0
        self._is_pulling = False
        self._is_closed = False

    def request(self, count: int) -> None:
        """Read this many more items in the thread."""
        self._asked += count
        if not self._is_pulling and not self._is_closed:
            self._is_pulling = True
            count, self._asked = self._asked, 0
            self._threads.submit(partial(self._pull, count), self._pulled)

    def close(self) -> None:
        """Read no more; the thread closes the iterator once it comes back."""
        if not self._is_closed:
            self._is_closed = True
            self._threads.submit(self._close_iterator, _ignore)
            self._threads.dismiss()

    async def wait_closed(self, grace_s: float) -> None:
        """Wait for the thread, unless it is stuck in the source."""
        await self._threads.wait_gone(grace_s)

    def _pull(self, count: int) -> bool:
        """Post up to ``count`` items; return whether the source has ended. In the thread."""
        if self._iterator is None:
            self._iterator = iter(self._items)
        for _ in range(count):
            if self._is_closed:
                break
            try:
                item = next(self._iterator)
            except StopIteration:
                return True
            self._mailbox.post(item)
        return False

    def _close_iterator(self) -> None:
        if isinstance(self._iterator, Generator):
            with suppress(Exception):
                self._iterator.close()

    def _receive(self, item: Any) -> None:
        if not self._is_closed:
            self._taken += 1
            self._on_item(self._taken - 1, item)

    def _pulled(self, has_ended: Any, error: BaseException | None) -> None:
        self._mailbox.empty()
        self._is_pulling = False
        if self._is_closed:
            return
        if has_ended or error is not None:
            self.close()
            self._on_end(self._taken, error)
        elif self._asked:
            self.request(0)


class AsyncFeed:
    """Reads an async iterable in a task."""

    def __init__(self, items: AsyncIterable[Any], workers: Workers, on_item: OnItem, on_end: OnEnd) -> None:
        self._items = items
        self._on_item = on_item
        self._on_end = on_end
        self._asked = 0
        self._taken = 0
        self._has_room = asyncio.Event()
        self._is_closed = False
        self._task = workers.spawn(self._pull_all())

    def request(self, count: int) -> None:
        """Read this many more items in the task."""
        self._asked += count
        self._has_room.set()

    def close(self) -> None:
        """Read no more; the task closes the iterator."""
        if not self._is_closed:
            self._is_closed = True
            self._task.cancel()

    async def _pull_all(self) -> None:
        error: BaseException | None = None
        iterator: AsyncIterator[Any] | None = None
        try:
            iterator = aiter(self._items)
            await self._pull(iterator)
        except BaseException as raised:  # noqa: BLE001  whatever a source raises is the run's to report
            error = raised
        if not self._is_closed:
            self._is_closed = True
            self._on_end(self._taken, error)
        if close := getattr(iterator, "aclose", None):
            with suppress(BaseException):  # after its end a source has nothing left to say
                await close()

    async def _pull(self, iterator: AsyncIterator[Any]) -> None:
        while True:
            while self._asked <= 0:
                self._has_room.clear()
                await self._has_room.wait()
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                return
            if self._is_closed:
                return
            self._asked -= 1
            self._taken += 1
            self._on_item(self._taken - 1, item)


def _ignore(_value: object, _error: BaseException | None) -> None:
    """Do nothing: nothing more is needed of a source that fails to close."""
