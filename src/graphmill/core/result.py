"""A result: the final record of one job, with its failure; and its trace, the steps that led there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from graphmill.core.job import item_of_sample
from graphmill.core.usage import Usage, cost_usd


class Status(StrEnum):
    """The state of an item's job. Waiting is for a person's answer; pending items were left over by a stop."""

    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    WAITING = "waiting"

    @property
    def is_final(self) -> bool:
        """Whether it can no longer change."""
        return self not in _LIVE


PENDING, RUNNING, RETRYING, SUCCEEDED, FAILED, TIMED_OUT, CANCELLED, WAITING = (
    Status  # a global is looked up faster than a member
)
_LIVE = frozenset({PENDING, RUNNING, RETRYING})
FAILURES = frozenset({Status.FAILED, Status.TIMED_OUT})
# The model did answer, but not with a whole answer in the wanted form: a wrong answer, and no fault of the
# infrastructure.
REFUSAL, CONTENT_FILTER, TRUNCATED, UNMET_SCHEMA = "refusal", "content_filter", "truncated", "unmet_schema"
ANSWER_CAUSES = frozenset({REFUSAL, CONTENT_FILTER, TRUNCATED, UNMET_SCHEMA})


class StopReason(StrEnum):
    """Why a run ended before all its items were done."""

    FAIL_FAST = "fail_fast"
    MAX_FAILURES = "max_failures"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    REQUEST = "request"
    OUTAGE = "outage"
    BUDGET = "budget"
    STUCK = "stuck"
    JOURNAL = "journal"

    @property
    def is_pause(self) -> bool:
        """Whether the run is paused, and nothing has failed by it."""
        return self in (StopReason.REQUEST, StopReason.OUTAGE, StopReason.BUDGET)


class Kind(StrEnum):
    """Why an attempt failed; decides whether it is retried."""

    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"
    TRANSIENT = "transient"
    PERMANENT = "permanent"
    TIMEOUT = "timeout"
    CRASH = "crash"
    AMBIGUOUS = "ambiguous"
    CANCELLED = "cancelled"
    PAUSED = "paused"

    @property
    def is_retryable(self) -> bool:
        """Whether another attempt may succeed."""
        return self in _RETRYABLE


_RETRYABLE = frozenset({Kind.THROTTLED, Kind.UNAVAILABLE, Kind.TRANSIENT, Kind.TIMEOUT, Kind.CRASH})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An exception as data; the exception itself, with its frames, is not kept alive.

    ``answer`` is a model's unusable answer, if that was the failure, and ``cause`` says in one word what was wrong with
    it: one of ``ANSWER_CAUSES``.
    """

    kind: Kind
    message: str
    type: str
    traceback: str = ""
    retry_after_s: float | None = None
    answer: str = ""
    cause: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"

    @property
    def retryable(self) -> bool:
        """Whether a failure of this kind may be retried."""
        return self.kind.is_retryable


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A job's final record.

    ``queued_s`` is the wait before the first attempt; ``duration_s`` is the time from there to the end, with the waits
    between attempts, and for a job made of steps with the time of earlier processes. ``usage`` and ``cost_nano`` are
    None if nothing was metered; ``cost_nano`` is the known cost, and ``usage["unpriced"]`` counts the requests it
    leaves out.
    """

    job_id: str
    position: int
    status: Status
    input: Any
    output: Any = None
    error: Failure | None = None
    attempts: int = 0
    queued_s: float = 0.0
    duration_s: float = 0.0
    usage: Mapping[str, int] | None = None
    cost_nano: int | None = None
    metadata: Mapping[str, Any] = {}

    @property
    def is_success(self) -> bool:
        """Whether the job succeeded."""
        return self.status is Status.SUCCEEDED

    @property
    def is_degraded(self) -> bool:
        """Whether the job succeeded although something in it failed, such as an item of a batch with ``continue``."""
        return "degraded" in self.metadata and self.is_success and self.metadata["degraded"] is True

    @property
    def unpriced(self) -> int:
        """How many of its requests have no known cost."""
        return 0 if self.usage is None else self.usage.get("unpriced", 0)

    @property
    def cost_usd(self) -> float | None:
        """Its known cost in dollars; None if nothing was metered, or nothing of it has a price."""
        return None if self.cost_nano is None else cost_usd(self.cost_nano, self.unpriced)

    @property
    def is_partial(self) -> bool:
        """Whether the job succeeded with less than all: an end node said so, or a loop kept a round after an error."""
        return "partial" in self.metadata and self.is_success and self.metadata["partial"] is True

    @property
    def questions(self) -> Mapping[str, Any]:
        """The questions it waits for, by the paths of the steps that asked; empty if it waits for none."""
        asked = self.metadata.get("questions", ()) if self.status is Status.WAITING else ()
        return {each["path"]: each["question"] for each in asked}

    @property
    def sample(self) -> int:
        """The number of this sample, from 1; 0 if each item is run once."""
        found: int = self.metadata.get("sample", 0)
        return found

    @property
    def item_id(self) -> str:
        """The id of the item, which all its samples share."""
        return item_of_sample(self.job_id, self.sample)

    @property
    def is_failure(self) -> bool:
        """Whether the job failed or timed out; one that is cancelled, waiting or pending did neither."""
        return self.status is Status.FAILED or self.status is Status.TIMED_OUT


class TraceStep(msgspec.Struct, frozen=True, kw_only=True):
    """A model call, or a step that called no model. Times are in seconds since the item began.

    ``id`` never changes, and is unique in a journal. ``path`` is the place of the step, such as ``debate@2/solve``;
    ``node`` the id of its node (of a function: its name), ``round`` the number of the innermost round, None outside of
    loops. ``generation`` is the time the item was run at which this happened.

    ``request`` has the ``messages`` and, where there were any, ``params``, ``tools`` and ``schema``; ``response`` the
    ``text``, ``reasoning``, ``finish_reason``, ``tool_calls``, ``id``, ``model``, ``system_fingerprint``,
    ``service_tier`` and ``usage`` of the answer. Both are None for a step that called no model, and in a run that does
    not record prompts. ``problem`` says why an answer was asked for again. ``output`` is the step's own, with the last
    of its calls. ``usage`` leaves out that of steps inside this one, and ``cost_nano`` is the known part of its cost.
    """

    id: str
    path: str
    node: str
    generation: int
    attempt: int
    began_s: float
    duration_s: float
    role: str | None = None
    round: int | None = None
    model: str | None = None
    request: Mapping[str, Any] | None = None
    response: Mapping[str, Any] | None = None
    output: Any = None
    problem: str | None = None
    error: Mapping[str, Any] | None = None
    cached: bool = False
    usage: Usage | None = None
    cost_nano: int | None = None


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a run as frozen values: its result, and the steps that led there, in the order in which they began.

    ``row`` counts from 1, as in ``graphmill results``; ``sample`` from 1, and is 0 where each item is run once. A step
    that was not run again for this result has an earlier ``generation`` than the trace.
    """

    run_id: str
    item_id: str
    row: int
    sample: int
    generation: int
    status: Status
    input: Any
    output: Any
    error: Failure | None
    steps: Sequence[TraceStep]
