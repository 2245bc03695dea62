"""What is looked at now and then: how far the run is, whether the machine can bear more, whether somebody must be told."""

from __future__ import annotations

import time
from collections.abc import Callable

from graphmill.core.result import Result
from graphmill.engine.alerts import Watch
from graphmill.engine.audience import Audience
from graphmill.engine.figures import Figures
from graphmill.engine.guards import Guard
from graphmill.engine.recorder import Recorder
from graphmill.engine.scheduler import Scheduler
from graphmill.engine.terms import Terms

_NOTE_S = 2.0  # at the least between two notes, and a wait that is worth to say its end


class Pulse:
    """Looks, and tells, at each beat; ``changed`` is called when the guards have begun or ceased to hold the starts."""

    def __init__(
        self,
        scheduler: Scheduler,
        figures: Figures,
        audience: Audience,
        *,
        terms: Terms,
        changed: Callable[[], None],
        recorder: Recorder | None,
        now: float,
    ) -> None:
        self._scheduler = scheduler
        self._figures = figures
        self._audience = audience
        self._guard = Guard(terms.policy.guards)
        self._watch = Watch(terms.policy.alerts, now)
        self._machine = terms.machine
        self._changed = changed
        self._recorder = recorder
        self._wall = terms.wall
        self._is_draining = False
        self._noted = ""
        self._noted_at = now

    def beat(self, now: float) -> None:
        """Look and tell."""
        self._read(now)
        self._alert(now)
        if self._recorder is not None and now - self._noted_at >= _NOTE_S:
            self._note(self._recorder, now)
        self._audience.tell_progress(lambda: self._figures.progress(now))

    def saw(self, result: Result, now: float) -> None:
        """Note a result."""
        if result.is_success or result.is_failure:
            self._watch.result(now, is_failure=result.is_failure)

    def drain(self, now: float) -> None:
        """Let others see at once that what runs is the last."""
        if self._recorder is not None and not self._is_draining:
            self._is_draining = True
            self._recorder.note(state="draining")
            self._note(self._recorder, now)

    def _note(self, recorder: Recorder, now: float) -> None:
        """Let those see what the run waits for who look at it from elsewhere."""
        waits = self._last_ones() if self._is_draining else self._waits(now)
        if waits != self._noted:
            self._noted, self._noted_at = waits, now
            recorder.note(waits=waits)

    def _last_ones(self) -> str:
        left = self._scheduler.leaving
        return f"{self._scheduler.running:,} running{'' if left is None else f'; {left.message}'}"

    def _waits(self, now: float) -> str:
        lane = self._figures.waits(now)
        if lane is None:
            return ""
        if lane.next_s is None or lane.next_s < _NOTE_S:
            return lane.waits
        return lane.waits + time.strftime(", next at %H:%M:%S", time.localtime(self._wall() + lane.next_s))

    def _read(self, now: float) -> None:
        reading = self._machine.read()
        self._figures.mark(now, reading)
        before, reason = self._scheduler.full, self._guard.judge(reading)
        self._scheduler.full = reason
        if (before is None) is not (reason is None):
            self._figures.note_hold(now)
            if not self._scheduler.is_paused:
                self._audience.tell_held(reason)
            self._changed()

    def _alert(self, now: float) -> None:
        is_idle = self._scheduler.is_paused or not self._scheduler.active
        for alert in self._watch.check(
            now, is_idle=is_idle, throttled=[lane.throttled for lane in self._scheduler.lanes if lane.jobs]
        ):
            self._audience.alert(alert)
