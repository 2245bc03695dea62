"""What the engine needs of a journal during a run. Called on the loop's thread; returns at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol
from uuid import uuid4

from graphmill.core.errors import GraphmillError
from graphmill.core.job import Job
from graphmill.core.result import Failure, Result, Status
from graphmill.core.usage import RunUsage, Usage, add_by_model

GATHER_S = 0.03  # a commit costs as much as thirty rows: one that nobody waits for is shared by all that come meanwhile


class StepOutcome(NamedTuple):
    """How a step inside a job ended: with a value, as JSON, or with a failure.

    ``began_s`` counts from the job's beginning, ``order`` among the job's recorded steps; ``models`` have answered it.
    A decision has no attempts.
    """

    body: bytes | None
    failure: Failure | None
    attempts: int = 1
    duration_s: float = 0.0
    usage: Usage | None = None
    began_s: float = 0.0
    order: float = 0
    models: tuple[str, ...] = ()


class LastStep(NamedTuple):
    """The step a job ended with, by path and content: it is recorded in the row of the job's outcome."""

    path: str
    content: bytes
    outcome: StepOutcome


class FailedAttempts(NamedTuple):
    """The failed attempts of a step without an outcome: the number of the last one, how many count, and their usage."""

    last: int = 0
    counted: int = 0
    usage: Usage | None = None


NO_ATTEMPTS = FailedAttempts()


class Recall(NamedTuple):
    """What is recorded of a job's steps: outcomes by path and content, unsafe starts, failed attempts by path."""

    outcomes: dict[tuple[str, bytes], StepOutcome]
    intended: set[str]
    failed: dict[str, FailedAttempts]
    since: int = 0  # the order of the first outcome of the present generation
    before_s: float = 0.0  # when, in the job's time, everything had ended that earlier processes recorded


def empty_recall() -> Recall:
    """Return the recall of a job without recorded steps."""
    return Recall({}, set(), {})


class SpilledOutcomes(Protocol):
    """Disk space for the outcomes of one job, gone with the process."""

    def put(self, body: bytes) -> int | None:
        """Store a body; return its place, or None if that is not possible."""

    def get(self, place: int) -> bytes:
        """Return the body at a place."""


LiveState = Literal["running", "paused", "stopping"]
CommittedCallback = Callable[[int], None]
BrokenCallback = Callable[[GraphmillError], None]
RequestCallback = Callable[[str, str], None]


class Recorder(Protocol):
    """Writes a run to the journal in the background.

    What is handed over gets a number; ``committed(number)`` reports that it, and everything before it, is durable. The
    number 0 means that there is nothing to wait for. ``created_at`` tells runs of one name apart. ``jobs`` are those
    left to run; ``done`` counts those that earlier processes finished, as they are read; ``suspects`` is how many run
    one at a time, because the whole process died more than once while they ran.
    """

    is_recording: bool
    run_id: str
    created_at: float
    jobs: Any
    total: int | None
    done: Mapping[Status, int]
    suspects: int

    @property
    def traced(self) -> str | None:
        """The trace span of the process that owned the run before."""

    def open(self, *, committed: CommittedCallback, broken: BrokenCallback, asked: RequestCallback) -> None:
        """Begin. Callbacks run on the loop: ``broken`` at most once, ``asked(word, argument)`` with requests."""

    @property
    def accept(self) -> Callable[[Any], tuple[Any, Any]] | None:
        """A function that is called with each output where it was made; what it raises fails the attempt.

        It returns the output, and its body for ``finish``.
        """

    def begin(self, job: Job, attempt: int, path: str = "") -> int:
        """Record that an attempt of a job, or of an unsafe step inside it, is about to start."""

    def fail(self, job: Job, attempt: int, failure: Failure, path: str = "", *, usage: Usage | None = None) -> int:
        """Record a failed attempt that is followed by another, and its usage."""

    def spend(self, job: Job, spender: str, usage: Usage) -> None:
        """Add usage of who has used it, as ``core.usage.spender`` names them; the job's next row records it."""

    def save_committed(self, nano: int) -> None:
        """Note, so that it survives the death of the process, what the run counts as spent if it dies now."""

    def record_call(self, job: Job, path: str, encode: Callable[[], bytes]) -> None:
        """Record what passed between a step and a model; ``encode`` is called in another thread, and returns JSON."""

    @property
    def usage(self) -> Mapping[str, Usage]:
        """The run's usage by model, as far as it is durable."""

    def recall(self, job: Job) -> Recall | None:
        """Return what is recorded of a job's steps; None if nothing is."""

    def step(self, job: Job, path: str, content: bytes, outcome: StepOutcome) -> int:
        """Record how a step inside a job ended."""

    def remember(self, job: Job, path: str, content: bytes, body: bytes, *, is_temporary: bool) -> int:
        """Record a program's decision; a temporary one is forgotten when the job is retried."""

    def spill(self) -> SpilledOutcomes | None:
        """Return disk space for a job's outcomes; None if there is none."""

    def finish(self, job: Job, result: Result, body: Any, last: LastStep | None = None) -> int:
        """Record a job's result and the step that led to it; the body is None if it has no output."""

    def leave(self, job: Job) -> None:
        """Record that nothing of a job is running."""

    def hurry(self) -> None:
        """Commit what was handed over without waiting for more."""

    def note(
        self,
        *,
        state: LiveState | None = None,
        limit: int | None = None,
        adaptive: bool | None = None,
        traced: str | None = None,
        waits: str | None = None,
    ) -> None:
        """Record the run's state, its concurrency and whether that adapts, its trace span, or what it waits for."""

    def abandon(self) -> None:
        """Give up a run that was opened and did not begin."""

    async def close(
        self, *, stopped: str | None, because: str, is_refused: bool, is_read: bool, elapsed_s: float
    ) -> None:
        """Write what is left, record how the run ended, and release it, without waiting long.

        A refused run can still be resumed.
        """


class RecordsRuns(Protocol):
    """Where runs are recorded."""

    def recorder(
        self, jobs: Any, *, run_id: str | None, total: int | None, answers: Mapping[str, Any] | None = None
    ) -> Recorder:
        """Take a run, new or resumed; this blocks."""


class NullRecorder:
    """The recorder of a run without a journal: everything counts as durable at once, and usage is kept in memory."""

    is_recording = False
    created_at = 0.0
    suspects = 0
    traced: str | None = None

    def __init__(self, jobs: Any, *, total: int | None, accept: Callable[[Any], Any] | None) -> None:
        self.run_id = uuid4().hex
        self.jobs = jobs
        self.total = total
        self.accept = accept
        self.done: Mapping[Status, int] = {}
        self._spent: Mapping[str, Usage] = {}

    @property
    def usage(self) -> RunUsage:
        return RunUsage(self._spent)

    def spend(self, job: Job, spender: str, usage: Usage) -> None:
        self._spent = add_by_model(self._spent, {spender: usage})

    def begin(self, job: Job, attempt: int, path: str = "") -> int:
        return 0

    def save_committed(self, nano: int) -> None:
        pass

    def record_call(self, job: Job, path: str, encode: Callable[[], bytes]) -> None:
        pass

    def leave(self, job: Job) -> None:
        pass

    def open(self, **_: Any) -> None:
        pass

    def fail(self, *_: Any, **__: Any) -> int:
        return 0

    def recall(self, job: Job) -> None:
        return None

    def step(self, *_: Any) -> int:
        return 0

    def remember(self, *_: Any, **__: Any) -> int:
        return 0

    def spill(self) -> None:
        return None

    def finish(self, *_: Any) -> int:
        return 0

    def hurry(self) -> None:
        pass

    def note(self, **_: Any) -> None:
        pass

    def abandon(self) -> None:
        pass

    async def close(self, **_: Any) -> None:
        pass
