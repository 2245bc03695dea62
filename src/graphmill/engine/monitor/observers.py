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
    """What a person wants called: each may be a plain or an async function."""

    on_result: Callable[[Job, Result], Any] | None = None
    on_progress: Callable[[Progress], Any] | None = None
    on_alert: Callable[[Alert], Any] | None = None
    observers: Sequence[Callable[[Event], Any]] = ()

    def __post_init__(self) -> None:
        for name in ("on_result", "on_progress", "on_alert"):
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                raise UsageError(f"{name} is a function, not {hook!r:.80}")
        if not isinstance(self.observers, Sequence) or not all(callable(observer) for observer in self.observers):
            raise UsageError(f"observers is a list of functions, not {self.observers!r:.80}")


class Observers:
    """The hooks of one run, each behind a queue of its own; ``deliver`` gets each result once ``on_result`` has seen it."""

    def __init__(self, hooks: Hooks, workers: Workers, *, window: int, deliver: Callable[[Result], None]) -> None:
        self._loop = workers.loop
        self._started_at = self._loop.time()
        self._deliver = deliver
        self._on_result = self._on_progress = self._on_alert = None
        if hooks.on_result is not None:
            self._on_result = HookQueue("on_result", hooks.on_result, workers, then=lambda entry: deliver(entry[1]))
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
            hook for hook in (self._on_result, self._on_progress, self._on_alert, *self._observers) if hook is not None
        ]

    @property
    def errors(self) -> int:
        """How often the hooks have raised."""
        return sum(hook.errors for hook in self._hooks)

    def notify(self, kind: Callable[..., Event], **facts: Any) -> None:
        """Tell the observers of an event."""
        if self._observers:
            event = kind(at_s=self._loop.time() - self._started_at, **facts)
            for observer in self._observers:
                observer.offer(event)

    def report_hold(self, reason: str | None) -> None:
        """Tell that nothing new is started, and why, or that it is again; in the log too, where somebody reads it in the morning."""
        if reason is None:
            log.info("starting again")
            self.notify(events.StartsReleased)
        else:
            log.warning("nothing new is started: %s", reason)
            self.notify(events.StartsHeld, reason=reason)

    def alert(self, alert: Alert) -> None:
        """Tell of an alert: the log, the observers, and ``on_alert``."""
        log.warning("alert: %s", alert.message)
        self.notify(events.AlertRaised, alert=alert)
        if self._on_alert is not None:
            self._on_alert.offer(alert)

    def report_progress(self, progress: Callable[[], Progress]) -> None:
        """Tell how far the run is."""
        if self._on_progress is not None:
            self._on_progress.offer(progress())

    def show(self, job: Job, result: Result) -> None:
        """Show a result to ``on_result``, then deliver it; without the hook, at once."""
        if self._on_result is None:
            self._deliver(result)
        else:
            self._on_result.offer(job, result)

    def unhang_results(self) -> None:
        """Let results pass an ``on_result`` that has hung since this was last called."""
        if self._on_result is not None:
            self._on_result.unhang()

    def need_pause(self) -> bool:
        """Tell whether an observer asks for a pause."""
        return any(observer.need_pause() for observer in self._observers)

    async def settle(self, within_s: float) -> None:
        """Wait, but not longer than this, until everybody has seen everything."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                for hook in self._hooks:
                    await hook.wait_idle()
        for hook in self._hooks:
            hook.report_drops()


class HookQueue:
    """A callback and the queue before it.

    A listener has a ``capacity``: beyond it the oldest entries are dropped and counted. If it raises, that is reported and
    it is called no more. With ``then`` the callback is a stage on a entry's way instead: nothing is dropped (the window
    bounds what can wait), ``then`` gets each entry once the callback has seen it, and one that raises is called again.
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
        self._is_async = is_async(callback)
        self._entries: deque[tuple[Any, ...]] = deque(maxlen=capacity)
        self._then = then
        self._seen = Mailbox(workers.loop, self._pass_on)
        self._owed: dict[int, tuple[Any, ...]] = {}
        self._last_in_hand: tuple[Any, ...] | None = None
        self.errors = 0
        self._dropped = 0
        self._pauses_left = MAX_PAUSES
        self._has_entries = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._is_gone = False
        workers.spawn(self._serve())

    def offer(self, *entry: Any) -> None:
        """Let the callback see this when it gets to it."""
        if self._is_gone:
            if self._then is not None:
                self._then(entry)
            return
        self._dropped += len(self._entries) == self._entries.maxlen
        self._entries.append(entry)
        if self._then is not None:
            self._owed[id(entry)] = entry
        self._is_idle.clear()
        self._has_entries.set()

    def need_pause(self) -> bool:
        """Ask for a breath's pause while the queue is more than half full, as often as patience lasts.

        A busy loop starves the threads in which plain callbacks run. So a quick one gets the time it needs, and a slow one
        holds the run for a second in all, then misses entries.
        """
        is_behind = self._pauses_left > 0 and 2 * len(self._entries) > (self._entries.maxlen or 0)
        self._pauses_left -= is_behind
        return is_behind

    def unhang(self) -> None:
        """Wait no longer for a stage that is where it was when last asked: pass on what it holds up, and call it no more.

        To be called now and then; a slow stage that gets on is left in peace.
        """
        in_hand = next(iter(self._owed.values()), None)
        if in_hand is not None and in_hand is self._last_in_hand:
            self._is_gone = True
            for entry in list(self._owed.values()):
                self._pass_on(entry)
        self._last_in_hand = in_hand

    async def wait_idle(self) -> None:
        """Wait until the callback has seen everything."""
        await self._is_idle.wait()

    def report_drops(self) -> None:
        """Say how much a listener has missed; a newest reading that replaced an older one is not missed."""
        if self._dropped and self._entries.maxlen != 1:
            log.warning("%s was too slow: %d events were not shown to it", self._name, self._dropped)

    async def _serve(self) -> None:
        while not self._is_gone:
            await self._has_entries.wait()
            self._has_entries.clear()
            entries = list(self._entries)
            self._entries.clear()
            if self._is_async:
                await self._call_on_loop(entries)
            else:
                await self._workers.submit(partial(self._call_in_thread, entries))
            self._seen.empty()
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
            self._pass_on(entry)

    def _call_in_thread(self, entries: list[tuple[Any, ...]]) -> None:
        for entry in entries:
            try:
                if not self._is_gone:
                    self._callback(*entry)
            except BaseException as error:  # noqa: BLE001
                self._report(error)
            if self._then is not None:
                self._seen.post(entry)

    def _pass_on(self, entry: tuple[Any, ...]) -> None:
        if self._then is not None and self._owed.pop(id(entry), None) is not None:
            self._then(entry)

    def _report(self, error: BaseException) -> None:
        self.errors += 1
        if self.errors == 1:
            then = "it is called no more" if self._then is None else "it is called again for the next"
            log.error("%s raised; %s", self._name, then, exc_info=error)
        self._is_gone = self._is_gone or self._then is None
