"""A ticket: where one job of the window stands."""

from __future__ import annotations

from asyncio import TimerHandle
from typing import TYPE_CHECKING, Any

from graphmill.core.job import Job
from graphmill.core.result import Failure, Status
from graphmill.engine.adaptive import Stamp
from graphmill.engine.recorder import Recall
from graphmill.engine.workers import Attempt

if TYPE_CHECKING:
    from graphmill.engine.lane import Lane


class Ticket:
    """The run's own mutable record of one job, from its admission until its result is taken.

    The scheduler and its lanes keep the upper fields, the conductor and the steps the last five.
    """

    __slots__ = (
        "admitted_at",
        "attempt",
        "attempts",
        "body",
        "crashes",
        "is_probe",
        "job",
        "lane",
        "position",
        "rank",
        "recall",
        "refusals",
        "stamp",
        "started_at",
        "status",
        "throttled_at",
        "throttled_s",
        "throttles",
        "timer",
        "verdict",
    )

    def __init__(self, job: Job, lane: Lane, *, position: int, rank: float, now: float) -> None:
        self.job = job
        self.lane = lane
        self.position = position
        self.rank = rank
        self.admitted_at = now
        self.started_at: float | None = None
        self.status = Status.PENDING
        self.attempts = job.past.attempts
        self.crashes = job.past.crashes
        self.throttles = 0
        self.throttled_s = 0.0
        self.throttled_at = now
        self.refusals = job.past.attempts - job.past.counted
        self.is_probe = False
        self.stamp: Stamp = (0, 0.0)
        self.attempt: Attempt | None = None
        self.timer: TimerHandle | None = None
        self.verdict: Verdict | None = None
        self.body: Any = None
        self.recall: Recall | None = None


class Verdict:
    """An end decided from outside while the job was under way; whatever its function still returns is fenced off."""

    __slots__ = ("failure", "is_final")

    def __init__(self, failure: Failure, *, is_final: bool) -> None:
        self.failure = failure
        self.is_final = is_final
