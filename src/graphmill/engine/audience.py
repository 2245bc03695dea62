"""Who is told of what happens in a run: the hooks a person gives, and the queues before them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.core.job import Job
from graphmill.core.result import Result
from graphmill.engine import events
from graphmill.engine.alerts import Alert
from graphmill.engine.events import Event
from graphmill.engine.progress import Progress
from graphmill.engine.subscriber import Subscriber, log
from graphmill.engine.workers import Workers

LEAST_EVENTS_QUEUED = 10_000
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


class Audience:
    """The hooks of one run, each behind a queue of its own; ``deliver`` gets each result once ``on_result`` has seen it."""

    def __init__(self, hooks: Hooks, workers: Workers, *, window: int, deliver: Callable[[Result], None]) -> None:
        self._loop = workers.loop
        self._started_at = self._loop.time()
        self._deliver = deliver
        self._on_result = self._on_progress = self._on_alert = None
        if hooks.on_result is not None:
            self._on_result = Subscriber("on_result", hooks.on_result, workers, then=lambda letter: deliver(letter[1]))
        if hooks.on_progress is not None:
            self._on_progress = Subscriber("on_progress", hooks.on_progress, workers, capacity=1)
        if hooks.on_alert is not None:
            self._on_alert = Subscriber("on_alert", hooks.on_alert, workers, then=lambda _letter: None)
        capacity = max(LEAST_EVENTS_QUEUED, 4 * window)
        self._observers = [
            Subscriber(f"observer {hook!r:.80}", hook, workers, capacity=capacity) for hook in hooks.observers
        ]
        self.has_observers = bool(self._observers)
        self._everybody = [
            hook for hook in (self._on_result, self._on_progress, self._on_alert, *self._observers) if hook is not None
        ]

    @property
    def errors(self) -> int:
        """How often the hooks have raised."""
        return sum(subscriber.errors for subscriber in self._everybody)

    def tell(self, kind: Callable[..., Event], **facts: Any) -> None:
        """Tell the observers of an event."""
        if self._observers:
            event = kind(at_s=self._loop.time() - self._started_at, **facts)
            for observer in self._observers:
                observer.offer(event)

    def tell_held(self, reason: str | None) -> None:
        """Tell that nothing new is started, and why, or that it is again; in the log too, where somebody reads it in the morning."""
        if reason is None:
            log.info("starting again")
            self.tell(events.StartsReleased)
        else:
            log.warning("nothing new is started: %s", reason)
            self.tell(events.StartsHeld, reason=reason)

    def alert(self, alert: Alert) -> None:
        """Tell of an alert: the log, the observers, and ``on_alert``."""
        log.warning("alert: %s", alert.message)
        self.tell(events.AlertRaised, alert=alert)
        if self._on_alert is not None:
            self._on_alert.offer(alert)

    def tell_progress(self, progress: Callable[[], Progress]) -> None:
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

    def take_breath(self) -> bool:
        """Tell whether an observer asks for a pause."""
        return any(observer.take_breath() for observer in self._observers)

    async def settle(self, within_s: float) -> None:
        """Wait, but not longer than this, until everybody has seen everything."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                for subscriber in self._everybody:
                    await subscriber.wait_idle()
        for subscriber in self._everybody:
            subscriber.report_drops()
