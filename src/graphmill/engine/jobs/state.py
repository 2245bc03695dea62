"""The state of a running job: one object each for the job, its records, a branch, a step and an attempt."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.core.job import Job
from graphmill.core.result import PENDING, Failure
from graphmill.core.usage import Usage

if TYPE_CHECKING:
    from graphmill.engine.attempts.workers import Attempt
    from graphmill.engine.jobs.branches import Replay
    from graphmill.engine.jobs.context import AttemptContext, Question
    from graphmill.engine.jobs.program import Fork, Program, Series, Step, StepRules
    from graphmill.engine.results.recorder import LastStep, Recall
    from graphmill.engine.scheduling.lanes import Lane, SlotRequest
    from graphmill.engine.scheduling.retry import Tries
    from graphmill.engine.timers import Deadlines

_branch_positions = count(-(2**62))  # among requests of one rank, those of jobs that have begun go first

Life = Generator[Any, Any, Any]


class JobEnd(NamedTuple):
    """How a job ended: its output, and that as it is recorded, or its failure; and metadata for its result."""

    output: Any = None
    body: Any = None
    failure: Failure | None = None
    metadata: Mapping[str, Any] = {}


class JobState:
    """One job of the window, from its admission until its result is taken."""

    # fmt: off
    __slots__ = (
        "admitted_at", "attempts", "end_failure", "entry", "existing_record", "is_finished", "job", "lane", "main",
        "position", "rank", "slots", "started_at", "status",
    )
    # fmt: on

    def __init__(self, job: Job, lane: Lane, *, position: int, rank: float, now: float) -> None:
        self.job = job
        self.lane = lane
        self.position = position
        self.rank = rank
        self.admitted_at = now
        self.started_at: float | None = None
        self.status = PENDING
        self.is_finished = False
        self.attempts = job.past.attempts
        self.entry: SlotRequest | None = None  # its place in the queue, until it begins
        self.main: Branch | None = None
        self.end_failure: Failure | None = None  # how it ends as soon as nothing of it runs
        self.slots = 0  # how many it holds
        self.existing_record: JobRecord | None = None

    @property
    def record(self) -> JobRecord:
        """What it has produced so far; made when there is something to note."""
        if self.existing_record is None:
            self.existing_record = JobRecord(self.job)
        return self.existing_record

    @property
    def source_position(self) -> int:
        """Its item's position in the source; in a run that is resumed or retried, not its place among the jobs."""
        past = self.job.past.position
        return self.position if past is None else past

    def began_at(self, now: float) -> float:
        """Return when it began; now, if it has not."""
        if self.started_at is None:
            return now
        return self.started_at

    def branches(self) -> list[Branch]:
        """Return all its branches, parents first."""
        found = [] if self.main is None else [self.main]
        for branch in found:
            found += branch.children
        return found


class JobRecord:
    """What a job has produced so far: all that its result and its rows in the journal are made of."""

    __slots__ = ("last_step", "models", "past_s", "questions", "recall", "replay", "series", "usage")

    def __init__(self, job: Job) -> None:
        self.usage: Usage | None = job.past.usage
        self.models: list[str] = []
        self.questions: list[Question] | None = None
        self.last_step: LastStep | None = None  # not yet written: it goes with the job's own row if that comes next
        self.recall: Recall | None = None
        self.replay: Replay | None = None
        self.series: Series | None = None
        self.past_s = 0.0

    def add_models(self, *models: str) -> None:
        """Note which models have answered."""
        self.models.extend(model for model in models if model and model not in self.models)


class Branch:
    """One line of steps of a job: a generator, resumed with what it waited for. Forks add more lines."""

    # fmt: off
    __slots__ = (
        "children", "fork", "is_dropped", "is_forking", "is_held", "job", "life", "parent", "position", "program",
        "step", "steps_in_slot", "waits_for",
    )
    # fmt: on

    def __init__(self, job: JobState, program: Program | None, parent: Branch | None) -> None:
        self.job = job
        self.program = program  # None for a job that is a plain function
        self.parent = parent
        self.position = job.position if program is None else next(_branch_positions)
        self.life: Life
        self.children: dict[Branch, None] = {}
        self.fork: Fork | None = None
        self.step: StepState | None = None  # the present one or, while its slot is kept, the last
        self.waits_for: Any = None  # a TimerHandle, a SlotRequest, or one of the words in driver.py
        self.steps_in_slot = 0
        self.is_forking = False
        self.is_dropped = False
        self.is_held = False  # waits until a server takes its next call, by rate limits or as it asked


class StepState:
    """One step under way, or the one call of a job that is a function: its attempts so far."""

    # fmt: off
    __slots__ = (
        "attempt", "attempts", "began_at", "branch", "last_lane", "rules", "slot", "step", "tries", "usage",
    )
    # fmt: on

    def __init__(self, branch: Branch, step: Step, attempts: int, usage: Usage | None, now: float) -> None:
        self.branch = branch
        self.step = step
        self.rules: StepRules = step.rules
        self.attempts = attempts  # those of earlier processes included
        self.tries: Tries | None = None  # made at the first failure
        self.usage = usage
        self.began_at = now
        self.slot: SlotRequest | None = None
        self.last_lane: Lane | None = None
        self.attempt: AttemptState | None = None

    @property
    def job(self) -> Job:
        """The job it belongs to."""
        return self.branch.job.job

    @property
    def record(self) -> JobRecord:
        """What its job has produced so far."""
        return self.branch.job.record

    @property
    def lane(self) -> Lane:
        """The lane of its slot, or of the last one it had."""
        return self.slot.lane if self.slot is not None else self.last_lane or self.branch.job.lane


class AttemptState:
    """One attempt of a step, from the moment it is numbered until it has ended."""

    # fmt: off
    __slots__ = (
        "cancel_reason", "context", "deadlines", "failed_lane", "handle", "is_over", "number", "questions", "step",
    )
    # fmt: on

    def __init__(self, step: StepState, number: int) -> None:
        self.step = step
        self.number = number
        self.handle: Attempt | None = None  # the task, thread or process call; None before it starts and after it ended
        self.context: AttemptContext | None = None
        self.deadlines: Deadlines[AttemptState] | None = None
        self.cancel_reason: CancelReason | None = None
        self.questions: list[Question] | None = None
        # Of a nested call: that lane, not the step's own, learned from its failure.
        self.failed_lane: Lane | None = None
        self.is_over = False

    def cancel(self, reason: CancelReason) -> None:
        """End it as soon as its code can be interrupted; a final reason is never replaced."""
        if self.cancel_reason is None or not self.cancel_reason.is_final:
            self.cancel_reason = reason
        if self.handle is not None:
            self.handle.interrupt()


class CancelReason(NamedTuple):
    """Why an attempt is ended from outside; its result is ignored. After a final reason it is not retried."""

    failure: Failure
    is_final: bool
