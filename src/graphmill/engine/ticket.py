"""A ticket: where one job of the window stands."""

from __future__ import annotations

from asyncio import TimerHandle
from typing import TYPE_CHECKING, Any

from graphmill.core.job import Job
from graphmill.core.result import PENDING, Failure
from graphmill.core.usage import Usage
from graphmill.engine.adaptive import Stamp
from graphmill.engine.deadlines import Deadlines
from graphmill.engine.recorder import LastStep, Recall
from graphmill.engine.workers import Attempt

if TYPE_CHECKING:
    from graphmill.engine.frame import Frame
    from graphmill.engine.lane import Lane
    from graphmill.engine.program import Series, StepRules
    from graphmill.engine.question import Question
    from graphmill.engine.rate_limits import Reservation
    from graphmill.engine.replay import Replay
    from graphmill.engine.strand import Strand


class Ticket:
    """The run's own mutable record of one job, from its admission until its result is taken.

    The scheduler and its lanes keep the upper fields, the conductor, the strands and the steps those from ``attempt`` on.
    """

    __slots__ = (
        "admitted_at",
        "asked",
        "attempt",
        "attempts",
        "blamed",
        "body",
        "busy",
        "crashes",
        "deadlines",
        "frame",
        "is_probe",
        "job",
        "lane",
        "last",
        "last_step",
        "models",
        "past_s",
        "path",
        "position",
        "questions",
        "rank",
        "recall",
        "refusals",
        "replay",
        "reserved",
        "rules",
        "series",
        "spent",
        "stamp",
        "started_at",
        "status",
        "strands",
        "throttled_at",
        "throttled_s",
        "throttles",
        "timer",
        "usage",
        "verdict",
    )

    def __init__(self, job: Job, lane: Lane, rules: StepRules, *, position: int, rank: float, now: float) -> None:
        self.job = job
        self.rules = rules
        self.path = ""  # of the step that it is for
        self.lane = lane
        self.position = position
        self.rank = rank
        self.admitted_at = self.throttled_at = now
        self.started_at: float | None = None
        self.status = PENDING
        self.attempts = job.past.attempts
        self.crashes = job.past.crashes
        self.throttles = self.spent = self.asked = 0  # spent and asked: tokens and requests, before its attempt
        self.throttled_s = 0.0
        self.refusals = job.past.attempts - job.past.counted
        self.is_probe = False
        self.stamp: Stamp = (0, 0.0)
        self.reserved: Reservation | None = None  # of its attempt, where its lane has a pace
        self.blamed: Lane | None = None  # that of the call which its attempt has failed with
        self.attempt: Attempt | None = None
        self.last: Attempt | None = None  # one that is telling its end at this moment
        self.timer: TimerHandle | None = None
        self.verdict: Verdict | None = None
        self.body: Any = None
        self.last_step: LastStep | None = None  # of such a job, while it is not recorded
        self.recall: Recall | None = None
        self.replay: Replay | None = None  # of a job that is made of steps, if some of them are known
        self.deadlines: Deadlines[Any] | None = None
        self.frame: Frame | None = None
        self.usage: Usage | None = job.past.usage
        self.models: list[str] = []  # that have answered
        self.questions: list[Question] | None = (
            None  # that its attempt, or if it is made of steps any of these, has asked in vain
        )
        self.strands: dict[Strand, None] | None = None  # of a job that is made of steps, once it has begun
        self.series: Series | None = None  # the last that it has told of
        self.past_s = 0.0  # when in the time of such a job its last process had recorded all it did
        self.busy = 0  # how many of them hold a slot

    def answered_by(self, *models: str) -> None:
        """Note that models have answered."""
        self.models += [model for model in models if model and model not in self.models]

    @property
    def is_call(self) -> bool:
        """Whether it is counted by the limits of its lane: not a job, of which the calls are."""
        return False

    @property
    def weight(self) -> int:
        """How many tokens its next attempt may take, as far as anybody knows."""
        return 0


class Verdict:
    """An end decided from outside while the job was under way; whatever its function still returns is fenced off."""

    __slots__ = ("failure", "is_final")

    def __init__(self, failure: Failure, *, is_final: bool) -> None:
        self.failure = failure
        self.is_final = is_final
