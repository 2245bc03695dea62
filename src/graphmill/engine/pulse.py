"""What is looked at now and then: how far the run is, whether the machine can bear more, whether somebody must be told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from graphmill.core.result import Result
from graphmill.engine.alerts import Watch
from graphmill.engine.audience import Audience
from graphmill.engine.figures import Figures
from graphmill.engine.guards import Guard
from graphmill.engine.machine import Reading
from graphmill.engine.policy import Policy
from graphmill.engine.scheduler import Scheduler


class Readable(Protocol):
    """What tells how full the machine is."""

    def read(self) -> Reading:
        """Read it now."""


class Pulse:
    """Looks, and tells, at each beat; ``changed`` is called when the guards have begun or ceased to hold the starts."""

    def __init__(
        self,
        scheduler: Scheduler,
        figures: Figures,
        audience: Audience,
        *,
        policy: Policy,
        machine: Readable,
        changed: Callable[[], None],
        now: float,
    ) -> None:
        self._scheduler = scheduler
        self._figures = figures
        self._audience = audience
        self._guard = Guard(policy.guards)
        self._watch = Watch(policy.alerts, now)
        self._machine = machine
        self._changed = changed

    def beat(self, now: float) -> None:
        """Look and tell."""
        self._read(now)
        self._alert(now)
        self._audience.tell_progress(lambda: self._figures.progress(now))

    def saw(self, result: Result, now: float) -> None:
        """Note a result."""
        if result.is_success or result.is_failure:
            self._watch.result(now, is_failure=result.is_failure)

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
        for alert in self._watch.check(now, is_idle=is_idle, throttled=[lane.throttled for lane in self._scheduler.lanes if lane.jobs]):
            self._audience.alert(alert)
