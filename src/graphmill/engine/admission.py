"""Admission: keeps the window full, and never fuller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphmill.core.errors import ChangedError, GraphmillError, JournalError, SourceError, described, message_of
from graphmill.core.job import Job
from graphmill.engine.feed import ContainerFeed, Feed, by_priority, open_feed
from graphmill.engine.scheduler import Scheduler
from graphmill.engine.workers import Workers

Bind = Callable[[int, Any], Job]
Ended = Callable[[int, GraphmillError | None], None]

_MOST_AT_ONCE = 1000  # what one turn of the loop admits is bounded, so that no turn is long


class Admission:
    """Asks the source for as many items as there is room for, and admits them as they come.

    ``admitted`` is called after each; ``ended(count, error)`` once, when the source is at its end or has failed.
    """

    def __init__(
        self, scheduler: Scheduler, workers: Workers, *, bind: Bind | None, admitted: Callable[[], None], ended: Ended
    ) -> None:
        self._scheduler = scheduler
        self._workers = workers
        self._bind = bind
        self._admitted = admitted
        self._ended = ended
        self._feed: Feed | None = None
        self._asked = 0
        self.is_over = False
        self.is_at_end = False
        self.is_reordered = False

    def open(self, jobs: Any, *, in_order: bool) -> None:
        """Begin to take jobs: a list by priority over its whole length, unless results are wanted in input order."""
        if self.is_over:
            return
        if self._bind is None and isinstance(jobs, list | tuple) and not in_order and _has_priorities(jobs):
            self.is_reordered = True
            self._feed = ContainerFeed(by_priority(jobs), self._on_item, self._on_end)
        else:
            self._feed = open_feed(jobs, workers=self._workers, on_item=self._on_item, on_end=self._on_end)
        self.refill()

    def refill(self) -> None:
        """Ask for more: as soon as slots would stay empty, else only when there is room enough to be worth a thread's while."""
        if self.is_over or self._feed is None:
            return
        scheduler = self._scheduler
        room = min(scheduler.window - scheduler.unfinished - self._asked, _MOST_AT_ONCE)
        is_hungry = scheduler.queued + self._asked < scheduler.limit
        if room >= 1 and (is_hungry or room >= min(scheduler.window // 4, _MOST_AT_ONCE)):
            self._asked += room
            self._feed.request(room)

    def close(self) -> None:
        """Admit no more."""
        self.is_over = True
        if self._feed is not None:
            self._feed.close()

    async def wait_closed(self, grace_s: float) -> None:
        """Wait, but not longer than this, until nothing of the source is left."""
        if self._feed is not None:
            await self._feed.wait_closed(grace_s)

    def _on_item(self, position: int, item: Any) -> None:
        self._asked -= 1
        if self.is_over:
            return
        try:
            job = item if self._bind is None else self._bind(position, item)
            self._scheduler.admit(job, position=position, now=self._workers.loop.time())
        except Exception as error:  # noqa: BLE001  whatever a source yields or a binder raises is the source's failure
            self._on_end(position, error)
        else:
            self._admitted()

    def _on_end(self, count: int, error: BaseException | None) -> None:
        self.close()
        self.is_at_end = error is None
        self._ended(count, None if error is None else _source_error(count, error))


def _has_priorities(jobs: Sequence[Any]) -> bool:
    return any(isinstance(job, Job) and job.priority for job in jobs) and all(isinstance(job, Job) for job in jobs)


def _source_error(position: int, error: BaseException) -> GraphmillError:
    if isinstance(error, SourceError | ChangedError | JournalError):
        return error
    told = message_of(error) if isinstance(error, GraphmillError) else described(error)
    found = SourceError(f"the source failed after {position:,} items: {told}", position=position)
    found.__cause__ = error
    return found
