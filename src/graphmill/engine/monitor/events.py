"""Facts about a run, as they happen: frozen, named in the past tense, for observers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphmill.core.result import Failure, Result, StopReason
from graphmill.engine.results.statistics import Statistics
from graphmill.engine.scheduling.health import HealthState

AlertName = Literal["failure_rate", "stalled", "throttled_share", "unavailable", "parked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """What somebody should know: a threshold was crossed, or what the jobs depend on is down, which has none."""

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
    """A run began; ``total`` is None where the number of items is not known."""

    concurrency: int
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(Event):
    """A job was given a slot, or, where it is made of steps, the step at this path was."""

    job_id: str
    attempt: int
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(Event):
    """An attempt failed and the job, or its step at this path, waits for its next."""

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
    """The limit of attempts at once was changed; ``key`` is None where it is that of the whole run, changed by hand."""

    before: int
    after: int
    key: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthChanged(Event):
    """What the jobs of a key depend on became unavailable (open), is probed (half_open), answers (closed), or was given up (parked)."""

    key: str
    state: HealthState
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsHeld(Event):
    """Nothing new is started: the run was paused, or the machine is full."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsReleased(Event):
    """What held the starts is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRaised(Event):
    """A threshold of the policy's alerts was crossed."""

    alert: Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEnded(Event):
    """All items are in; ``error`` says why if the source failed."""

    count: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopped(Event):
    """The run was told to end early; ``reason`` is the word also found in its report."""

    reason: StopReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Event):
    """Nothing is left to do."""

    statistics: Statistics
