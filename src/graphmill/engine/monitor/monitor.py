"""The monitor checks a run twice a second: is the machine full, is an alert due, what does the run wait for."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from graphmill.engine.monitor.events import Alert, AlertName
from graphmill.engine.monitor.machine import Reading
from graphmill.engine.monitor.observers import Observers
from graphmill.engine.policy import Alerts, Guards
from graphmill.engine.results.recorder import Recorder
from graphmill.engine.results.statistics import RunStatistics, Share, Tally
from graphmill.engine.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from graphmill.engine.engine import Engine, RunOptions
    from graphmill.engine.scheduling.lanes import Lane

LOW_WATER = 0.9  # of the high-water mark
_MIN_COUNT = 20  # a share of fewer says little
_CLEARLY_BELOW = 0.8
_NOTE_S = 2.0  # the least time between two notes, and the shortest wait whose end is noted


class Monitor:
    """Monitors one run."""

    def __init__(
        self,
        engine: Engine,
        scheduler: Scheduler,
        recorder: Recorder,
        statistics: RunStatistics,
        observers: Observers,
        options: RunOptions,
        *,
        now: float,
    ) -> None:
        self._engine = engine
        self._scheduler = scheduler
        self._recorder = recorder
        self._statistics = statistics
        self._observers = observers
        self._options = options
        self._guard = Guard(options.policy.guards)
        self._alerts = AlertWatch(options.policy.alerts, now)
        self._is_draining = False
        self._noted = ""
        self._noted_at = now

    def look(self, now: float) -> None:
        """Check everything, and report progress."""
        self._check_guards(now)
        self._check_alerts(now)
        if now - self._noted_at >= _NOTE_S:
            self._note(now)
        self._observers.report_progress(lambda: self._statistics.progress(now))

    def note_draining(self, now: float) -> None:
        """Record at once that the run is stopping."""
        if not self._is_draining:
            self._is_draining = True
            self._recorder.note(state="stopping")
            self._note(now)

    def _check_guards(self, now: float) -> None:
        reading = self._options.machine.read()
        self._statistics.mark(now, reading)
        before, reason = self._scheduler.holds.guard_reason, self._guard.judge(reading)
        self._scheduler.holds.guard_reason = reason
        if (before is None) is (reason is None):
            return
        self._statistics.note_hold(now)
        if not self._scheduler.holds.is_paused:
            self._observers.report_hold(reason)
        self._engine.schedule_starts()

    def _check_alerts(self, now: float) -> None:
        is_idle = self._scheduler.holds.is_paused or not self._scheduler.active
        # An adaptive limit comes down by itself: that its calls are throttled is worth an alert when it cannot come
        # down further.
        lanes = [lane for lane in self._scheduler.lanes if lane.members and not (lane.is_adaptive and lane.limit > 1)]
        throttled = [lane.throttled for lane in lanes]
        for alert in self._alerts.check(now, self._statistics.tally, is_idle=is_idle, throttled=throttled):
            if alert.name == "throttled_share":
                worst = max(lanes, key=lambda lane: lane.throttled.value)
                alert = replace(alert, message=f"{alert.message}; {self._throttling_remedy(worst)}")  # noqa: PLW2901
            self._observers.alert(alert)

    def _throttling_remedy(self, lane: Lane) -> str:
        if lane.is_adaptive:
            return "one call at a time is too many; state the server's limits in graphmill.yaml, or ask for higher ones"
        if self._recorder.is_recording:
            return f"graphmill limits {self._recorder.run_id} --adaptive finds how many calls at once it takes"
        return "lower the concurrency, or use Policy(adaptive=True)"

    def _note(self, now: float) -> None:
        """Record what the run waits for, for those who look at it from elsewhere."""
        waits = self._draining_text() if self._is_draining else self._wait_text(now)
        if waits != self._noted:
            self._noted, self._noted_at = waits, now
            self._recorder.note(waits=waits)

    def _draining_text(self) -> str:
        stop_failure = self._scheduler.stop_failure
        running = f"{self._scheduler.running:,} running"
        return running if stop_failure is None else f"{running}; {stop_failure.message}"

    def _wait_text(self, now: float) -> str:
        if self._scheduler.holds.is_paused:
            return "paused by a user"
        lane = self._statistics.waiting_lane(now)
        if lane is None:
            return ""
        if lane.next_s is None or lane.next_s < _NOTE_S:
            return lane.waits
        next_at = time.localtime(self._options.wall() + lane.next_s)
        return lane.waits + time.strftime(", next at %H:%M:%S", next_at)


class AlertWatch:
    """Raises each alert once when its threshold is crossed, and again only after it was clearly below in between."""

    def __init__(self, alerts: Alerts, now: float) -> None:
        self._judged = 0  # items, at the last check
        self._failure_rate = Latch(alerts.failure_rate, low_share=_CLEARLY_BELOW)
        self._throttled_share = Latch(alerts.throttled_share, low_share=_CLEARLY_BELOW)
        self._stalled_s = math.inf if alerts.stalled_s is None else alerts.stalled_s
        self._is_stalled = False
        self._waiting_since = now

    def check(self, now: float, tally: Tally, *, is_idle: bool, throttled: Iterable[Share]) -> list[Alert]:
        """Return the new alerts.

        A run that ``is_idle``, paused or waiting for its source, can't stall. Of the ``throttled`` shares, one per key,
        the worst counts.
        """
        found = [
            _crossed("failure_rate", self._failure_rate, [tally.failures], "the last results failed"),
            self._stall(now, tally.judged, is_idle=is_idle),
            _crossed("throttled_share", self._throttled_share, throttled, "recent calls were throttled"),
        ]
        return [alert for alert in found if alert is not None]

    def _stall(self, now: float, judged: int, *, is_idle: bool) -> Alert | None:
        if judged != self._judged:
            self._judged, self._is_stalled = judged, False
            self._waiting_since = now
        if is_idle:
            self._waiting_since = now
        waited_s = now - self._waiting_since
        if self._is_stalled or waited_s < self._stalled_s:
            return None
        self._is_stalled = True
        message = f"no item has finished for {round(waited_s, 1):g} s"
        return Alert(name="stalled", message=message, value=waited_s, threshold=self._stalled_s)


def _crossed(name: AlertName, latch: Latch, shares: Iterable[Share], what: str) -> Alert | None:
    share = max((share.value for share in shares if share.count >= _MIN_COUNT), default=0.0)
    if not latch.feed(share):
        return None
    message = f"{percent(share)} of {what} (alert above {percent(latch.high)})"
    return Alert(name=name, message=message, value=share, threshold=latch.high)


class Guard:
    """Pauses above a high-water mark until below 0.9 of it."""

    def __init__(self, guards: Guards) -> None:
        self._memory = Latch(guards.memory, low_share=LOW_WATER)
        self._cpu = Latch(guards.cpu, low_share=LOW_WATER)

    def judge(self, reading: Reading) -> str | None:
        """Return why nothing new may start now, or None."""
        reasons = [_reason("memory", self._memory, reading.memory), _reason("CPU", self._cpu, reading.cpu)]
        return "; ".join(filter(None, reasons)) or None


def _reason(name: str, latch: Latch, share: float) -> str | None:
    latch.feed(share)
    if not latch.is_on:
        return None
    mark = f"above {percent(latch.high)}" if share > latch.high else f"not yet below {percent(latch.low)}"
    return f"{name} {percent(share)} in use, {mark}"


class Latch:
    """A switch: on above ``high`` (None: never), off again below ``low_share`` of it."""

    __slots__ = ("high", "is_on", "low")

    def __init__(self, high: float | None, *, low_share: float) -> None:
        self.high = math.inf if high is None else high
        self.low = low_share * self.high
        self.is_on = False

    def feed(self, figure: float) -> bool:
        """Take the newest figure; return whether it turned the switch on."""
        was_on = self.is_on
        self.is_on = figure > self.high or (was_on and figure >= self.low)
        return self.is_on and not was_on


def percent(share: float) -> str:
    """Format a share: ``62.5 %``."""
    return f"{100 * share:.3g} %"
