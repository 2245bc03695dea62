"""What the engine needs of a journal while it runs: everything here is called on the loop's thread and returns at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from graphmill.core.errors import GraphmillError
from graphmill.core.job import Job
from graphmill.core.result import Failure, Result, Status
from graphmill.core.usage import Usage

GATHER_S = (
    0.03  # a commit costs as much as thirty rows: where nobody waits for one, it is for what comes within this time
)


class StepOutcome(NamedTuple):
    """How a step inside a job ended: with a value, as JSON, or with a failure; ``began_s`` counts from its job's beginning.

    ``order`` tells which of its job's recorded steps it was, ``models`` which have answered it. A note has no attempts.
    """

    body: bytes | None
    failure: Failure | None
    attempts: int = 1
    duration_s: float = 0.0
    usage: Usage | None = None
    began_s: float = 0.0
    order: int = 0
    models: tuple[str, ...] = ()


class LastStep(NamedTuple):
    """The step that a job has ended with, by path and content: it is recorded with the job's outcome."""

    path: str
    content: bytes
    outcome: StepOutcome


class FailedAttempts(NamedTuple):
    """What a step has gone through that has no outcome yet: the number of its last attempt, how many count, and what they used."""

    last: int = 0
    counted: int = 0
    usage: Usage | None = None


NO_ATTEMPTS = FailedAttempts()


class Recall(NamedTuple):
    """What is known of a job's steps: outcomes and notes by path and content, paths of unsafe ones begun, failed attempts by path."""

    outcomes: dict[tuple[str, bytes], StepOutcome]
    intended: set[str]
    failed: dict[str, FailedAttempts]
    since: int = 0  # the order of the first outcome that is not of an earlier generation
    before_s: float = 0.0  # when, in the job's time, all had ended that earlier processes recorded


def no_recall() -> Recall:
    """Know of no steps yet."""
    return Recall({}, set(), {})


class Pages(Protocol):
    """Room outside of memory, for one job and this process only."""

    def put(self, body: bytes) -> int | None:
        """Put a body aside; tell where it is, or None if that is not possible."""

    def get(self, place: int) -> bytes:
        """Give back what was put there."""


LiveState = Literal["running", "held", "draining"]  # it starts what is next, nothing for now, or nothing any more
Committed = Callable[[int], None]
Broken = Callable[[GraphmillError], None]
Asked = Callable[[str, str], None]


class Recorder(Protocol):
    """Writes a run down in the background.

    What is handed over gets a number; ``committed(number)`` tells that it, and all before it, is durable. It may wait a moment for more.
    ``created_at`` tells the run from another of its name, elsewhere or before it. ``jobs`` are what is left to do; ``done`` counts what
    was done before, as the jobs are read; ``suspects`` is how many jobs are to be run one at a time because the whole process has died
    under them more than once.
    """

    run_id: str
    created_at: float
    jobs: Any
    total: int | None
    done: Mapping[Status, int]
    suspects: int

    @property
    def traced(self) -> str | None:
        """The span of the process that had the run before, as it was noted."""

    def open(self, *, committed: Committed, broken: Broken, asked: Asked) -> None:
        """Begin; the three are called on the loop: ``broken`` at most once, ``asked(word, argument)`` with what others want of the run."""

    @property
    def accept(self) -> Callable[[Any], tuple[Any, Any]]:
        """A function that is called with each output where it was made; what it raises is the attempt's failure.

        It gives the output and its body, which goes to ``finish``.
        """

    def begin(self, job: Job, attempt: int, path: str = "") -> int:
        """Note that an attempt of a job, or of an unsafe step inside it, is to start; not 0 if it must not before that is committed."""

    def fail(self, job: Job, attempt: int, failure: Failure, path: str = "", *, usage: Usage | None = None) -> int:
        """Note an attempt that failed and will be followed by another, and what it used; 0 if that needs no row."""

    def spend(self, job: Job, model: str, usage: Usage) -> None:
        """Let the next row of a job tell that this was used."""

    @property
    def usage(self) -> Mapping[str, Usage]:
        """What the rows of the run tell that was used, by model."""

    def recall(self, job: Job) -> Recall | None:
        """Tell what is recorded of a job's steps; None where nothing is."""

    def step(self, job: Job, path: str, content: bytes, outcome: StepOutcome) -> int:
        """Note how a step inside a job ended."""

    def remember(self, job: Job, path: str, content: bytes, body: bytes, *, is_passing: bool) -> int:
        """Note what a job's program has decided; what is passing is forgotten when the job is done again."""

    def pages(self) -> Pages | None:
        """Give a job room outside of memory; None where there is none."""

    def finish(self, job: Job, result: Result, body: Any, last: LastStep | None = None) -> int:
        """Note a job's outcome, and the step that led to it; the body is None if it has no output."""

    def leave(self, job: Job) -> None:
        """Note that a job's attempt has ended, whatever becomes of it."""

    def hurry(self) -> None:
        """Let what was handed over wait for nothing more."""

    def note(
        self,
        *,
        state: LiveState | None = None,
        limit: int | None = None,
        traced: str | None = None,
        waits: str | None = None,
    ) -> None:
        """Note how the run stands; how many it runs at once; its span; what it waits for."""

    def abandon(self) -> None:
        """Let go of a run that was taken and not begun."""

    async def close(
        self, *, stopped: str | None, because: str, is_refused: bool, is_read: bool, elapsed_s: float
    ) -> None:
        """Write what is left, note how the run ended, let go of it; never wait for long. One that is refused can go on otherwise."""


class Journal(Protocol):
    """Where runs are recorded."""

    def recorder(
        self, jobs: Any, *, run_id: str | None, total: int | None, answers: Mapping[str, Any] | None = None
    ) -> Recorder:
        """Take hold of a run, new or gone on with; it blocks."""
