"""Events of a run, for observers: frozen values, named in the past tense."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphmill.core.result import Failure, Result, StopReason
from graphmill.engine.results.statistics import Statistics
from graphmill.engine.scheduling.health import HealthState

AlertName = Literal["failure_rate", "stalled", "throttled_share", "unavailable", "outage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something to look at: a threshold was crossed, or a dependency is unavailable, which has no threshold."""

    name: AlertName
    message: str
    value: float | None = None
    threshold: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened ``at_s`` seconds after the run's start."""

    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """A run began; ``total`` is None if the number of items is unknown."""

    concurrency: int
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(Event):
    """A job got a slot, or its step at this path did."""

    job_id: str
    attempt: int
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(Event):
    """An attempt failed and the job, or its step at this path, waits for the next one."""

    job_id: str
    attempt: int
    failure: Failure
    wait_s: float
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFinished(Event):
    """A job has its final result."""

    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyChanged(Event):
    """The concurrency changed: that of a key or, changed by hand, that of the whole run (None)."""

    before: int
    after: int
    key: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthChanged(Event):
    """The dependency of a key is unavailable (open), probed (half_open), back (closed), or given_up."""

    key: str
    state: HealthState
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsHeld(Event):
    """Nothing new is started: the run was paused, or the machine is full."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsReleased(Event):
    """Jobs are started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRaised(Event):
    """An alert was raised."""

    alert: Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEnded(Event):
    """All items were read; ``error`` says why if the source failed."""

    count: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopped(Event):
    """The run ends early; ``reason`` is the word that its report uses too."""

    reason: StopReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Event):
    """The run has ended."""

    statistics: Statistics
