"""Observers of a run: the hooks a user passes, each behind a queue of its own, so that none can harm the run."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.core.job import Job
from graphmill.core.result import Result
from graphmill.engine.attempts.threads import Mailbox
from graphmill.engine.attempts.workers import Workers, is_async
from graphmill.engine.monitor import events
from graphmill.engine.monitor.events import Alert, Event
from graphmill.engine.results.statistics import Progress

PAUSE_S = 0.005
MAX_PAUSES = 200

log = logging.getLogger("graphmill")
MIN_EVENTS_QUEUED = 10_000
SETTLE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The functions a user passes; each may be plain or async."""

    on_result: Callable[[Job, Result], Any] | None = None
    on_progress: Callable[[Progress], Any] | None = None
    on_alert: Callable[[Alert], Any] | None = None
    observers: Sequence[Callable[[Event], Any]] = ()

    def __post_init__(self) -> None:
        for name in ("on_result", "on_progress", "on_alert"):
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                raise UsageError(f"{name} must be a function, got {hook!r:.80}")
        if not isinstance(self.observers, Sequence) or not all(callable(observer) for observer in self.observers):
            raise UsageError(f"observers must be a list of functions, got {self.observers!r:.80}")


class Observers:
    """The hooks of one run, each behind its own queue; ``deliver`` gets each result after ``on_result``."""

    def __init__(self, hooks: Hooks, workers: Workers, *, window: int, deliver: Callable[[Result], None]) -> None:
        self._loop = workers.loop
        self._started_at = self._loop.time()
        self.on_result = self._on_progress = self._on_alert = None
        if hooks.on_result is not None:
            self.on_result = HookQueue("on_result", hooks.on_result, workers, then=lambda entry: deliver(entry[1]))
        if hooks.on_progress is not None:
            self._on_progress = HookQueue("on_progress", hooks.on_progress, workers, capacity=1)
        if hooks.on_alert is not None:
            self._on_alert = HookQueue("on_alert", hooks.on_alert, workers, then=lambda _entry: None)
        capacity = max(MIN_EVENTS_QUEUED, 4 * window)
        self._observers = [
            HookQueue(f"observer {hook!r:.80}", hook, workers, capacity=capacity) for hook in hooks.observers
        ]
        self.has_observers = bool(self._observers)
        self._hooks = [
            hook for hook in (self.on_result, self._on_progress, self._on_alert, *self._observers) if hook is not None
        ]

    @property
    def errors(self) -> int:
        """How often the hooks have raised."""
        return sum(hook.errors for hook in self._hooks)

    def notify(self, kind: Callable[..., Event], **facts: Any) -> None:
        """Notify the observers of an event."""
        if self._observers:
            event = kind(at_s=self._loop.time() - self._started_at, **facts)
            for observer in self._observers:
                observer.offer(event)

    def report_hold(self, reason: str | None) -> None:
        """Report that nothing new is started, and why, or that jobs are started again; to the log too."""
        if reason is None:
            log.info("starting jobs again")
            self.notify(events.StartsReleased)
        else:
            log.warning("not starting anything new: %s", reason)
            self.notify(events.StartsHeld, reason=reason)

    def alert(self, alert: Alert) -> None:
        """Report an alert: to the log, the observers, and ``on_alert``."""
        log.warning("alert: %s", alert.message)
        self.notify(events.AlertRaised, alert=alert)
        if self._on_alert is not None:
            self._on_alert.offer(alert)

    def report_progress(self, progress: Callable[[], Progress]) -> None:
        """Report the run's progress."""
        if self._on_progress is not None:
            self._on_progress.offer(progress())

    def unhang_results(self) -> None:
        """Let results bypass an ``on_result`` that has made no progress since the last call."""
        if self.on_result is not None:
            self.on_result.unhang()

    def need_pause(self) -> bool:
        """Whether an observer needs a pause to catch up."""
        return any(observer.need_pause() for observer in self._observers)

    async def settle(self, within_s: float) -> None:
        """Wait at most this long until the hooks have seen everything."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                for hook in self._hooks:
                    await hook.wait_idle()
        for hook in self._hooks:
            hook.report_drops()


class HookQueue:
    """One hook and its queue.

    A listener has a ``capacity``: beyond it the oldest entries are dropped and counted. If it raises, that is logged
    and it is not called again. With ``then`` the hook is a stage that every entry passes: nothing is dropped (the
    window bounds what can wait), ``then`` gets each entry after the hook, and a hook that raises is called for the next
    entry.
    """

    def __init__(
        self,
        name: str,
        callback: Callable[..., Any],
        workers: Workers,
        *,
        capacity: int | None = None,
        then: Callable[[tuple[Any, ...]], None] | None = None,
    ) -> None:
        self._name = name
        self._callback = callback
        self._workers = workers
        self._entries: deque[tuple[Any, ...]] = deque(maxlen=capacity)
        self._stage = None if then is None else _Stage(workers.loop, then)
        self.errors = 0
        self._dropped = 0
        self._pauses_left = MAX_PAUSES
        self._has_entries = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._is_gone = False
        workers.spawn(self._serve())

    def offer(self, *entry: Any) -> None:
        """Queue an entry for the hook."""
        if self._stage is not None:
            self._stage.enter(entry)
            if self._is_gone:
                self._stage.leave(entry)
        if self._is_gone:
            return
        self._dropped += len(self._entries) == self._entries.maxlen
        self._entries.append(entry)
        self._is_idle.clear()
        self._has_entries.set()

    def need_pause(self) -> bool:
        """Ask for a short pause while the queue is more than half full, a limited number of times.

        A busy loop starves the threads in which plain hooks run. So a quick one gets the time it needs, and a slow one
        delays the run by a second in all, then misses entries.
        """
        is_behind = self._pauses_left > 0 and 2 * len(self._entries) > (self._entries.maxlen or 0)
        self._pauses_left -= is_behind
        return is_behind

    def unhang(self) -> None:
        """Give up a stage without progress since the last call: pass on its entries, and don't call it again."""
        if self._stage is not None and self._stage.is_hanging():
            self._is_gone = True
            self._stage.clear()

    async def wait_idle(self) -> None:
        """Wait until the hook has seen everything."""
        await self._is_idle.wait()

    def report_drops(self) -> None:
        """Log how many entries a listener has missed."""
        if self._dropped and self._entries.maxlen != 1:
            log.warning("%s was too slow: %d events were not shown to it", self._name, self._dropped)

    async def _serve(self) -> None:
        is_on_loop = is_async(self._callback)
        while not self._is_gone:
            await self._has_entries.wait()
            self._has_entries.clear()
            entries = list(self._entries)
            self._entries.clear()
            if is_on_loop:
                await self._call_on_loop(entries)
            else:
                await self._workers.submit(partial(self._call_in_thread, entries))
            if self._stage is not None:
                self._stage.seen.empty()
            if not self._entries:
                self._is_idle.set()
        self._entries.clear()
        self._is_idle.set()

    async def _call_on_loop(self, entries: list[tuple[Any, ...]]) -> None:
        for entry in entries:
            try:
                if not self._is_gone:
                    await self._callback(*entry)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                self._report(error)  # the callback's own, as when it awaits a cancelled task
            except (Exception, SystemExit) as error:  # noqa: BLE001
                self._report(error)
            if self._stage is not None:
                self._stage.leave(entry)

    def _call_in_thread(self, entries: list[tuple[Any, ...]]) -> None:
        for entry in entries:
            try:
                if not self._is_gone:
                    self._callback(*entry)
            except BaseException as error:  # noqa: BLE001
                self._report(error)
            if self._stage is not None:
                self._stage.seen.post(entry)

    def _report(self, error: BaseException) -> None:
        self.errors += 1
        if self.errors == 1:
            then = "it is not called again" if self._stage is None else "it is called for the next one"
            log.error("%s raised; %s", self._name, then, exc_info=error)
        self._is_gone = self._is_gone or self._stage is None


class _Stage:
    """What is passing a hook that every entry must pass: each is passed on once, after the hook or instead of it."""

    __slots__ = ("_last_first", "_passing", "_then", "seen")

    def __init__(self, loop: asyncio.AbstractEventLoop, then: Callable[[tuple[Any, ...]], None]) -> None:
        self._then = then
        self._passing: dict[int, tuple[Any, ...]] = {}
        self._last_first: tuple[Any, ...] | None = None
        self.seen = Mailbox(loop, self.leave)  # what the hook has seen in its thread

    def enter(self, entry: tuple[Any, ...]) -> None:
        self._passing[id(entry)] = entry

    def leave(self, entry: tuple[Any, ...]) -> None:
        """Pass an entry on, unless it was."""
        if self._passing.pop(id(entry), None) is not None:
            self._then(entry)

    def clear(self) -> None:
        """Pass on everything."""
        for entry in list(self._passing.values()):
            self.leave(entry)

    def is_hanging(self) -> bool:
        """Whether nothing has left since the last call."""
        first = next(iter(self._passing.values()), None)
        before, self._last_first = self._last_first, first
        return first is not None and first is before
