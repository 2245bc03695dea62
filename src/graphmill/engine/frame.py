"""Where in a job code runs: which job, which attempt, which step. Found through the context, however deep the call."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Lock
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import Permanent, UsageError
from graphmill.core.json import digest
from graphmill.core.result import Failure
from graphmill.core.usage import RateLimits, Usage, added
from graphmill.engine.question import ASK
from graphmill.engine.shared import C

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from graphmill.engine.rate_limits import Holder
    from graphmill.engine.steps import Steps
    from graphmill.engine.ticket import Ticket
    from graphmill.engine.visit import Visit


class Frame:
    """One attempt of a job, or of the step at ``path`` inside it, called in the frame ``up``."""

    __slots__ = (
        "attempt",
        "calls",
        "down",
        "is_left",
        "path",
        "slot",
        "span",
        "steps",
        "ticket",
        "unrecorded",
        "up",
        "usage",
        "visit",
    )

    def __init__(
        self, steps: Steps, ticket: Ticket, path: str = "", *, attempt: int = 0, up: Frame | None = None
    ) -> None:
        self.steps = steps
        self.ticket = ticket
        self.attempt = attempt or ticket.attempts
        self.path = path
        self.up = up
        self.down: Frame | None = None  # of the step that runs inside now
        self.calls: Counter[str] | None = None
        self.slot: Lock | None = None
        self.usage: Usage | None = None
        self.unrecorded: Usage | None = None
        self.is_left = False
        self.visit: Visit | None = None  # of a call that is made here
        self.span: Span | None = None  # of this attempt, where somebody watches

    def report(self, usage: Usage, model: str, *, is_answer: bool = True) -> None:
        """Add to what the attempt has used of a model, and all that it is a part of, whatever they come to."""
        if is_answer and model and model not in self.ticket.models:
            self.ticket.models.append(model)
        self.steps.spending.add(self.ticket.job, model, usage)
        self.leave_unrecorded(usage)
        self.recount(usage)

    def recount(self, usage: Usage) -> None:
        """Count what is recorded already, of a step inside."""
        frame: Frame | None = self
        while frame is not None:
            frame.usage = added(frame.usage, usage)
            frame = frame.up

    def leave_unrecorded(self, usage: Usage) -> None:
        """Note that no step inside the attempt is recorded with this part of what it has used."""
        if self.is_left and self.up is not None:
            self.up.leave_unrecorded(usage)
        else:
            self.unrecorded = added(self.unrecorded, usage)

    def leave(self) -> None:
        """Leave to the caller what is unrecorded of an attempt that counts as none, also what its threads have yet to report."""
        self.is_left = True
        if self.unrecorded is not None:
            self.leave_unrecorded(self.unrecorded)

    def left_unrecorded(self) -> Usage | None:
        """Give what of its usage no step is recorded with, that of the step under way too: an attempt may end before it does."""
        return self.unrecorded if self.down is None else added(self.unrecorded, self.down.left_unrecorded())

    @property
    def item(self) -> str:
        """The id of the job."""
        return self.ticket.job.id

    @property
    def sample(self) -> int:
        """Which sample of its item the job is."""
        return self.ticket.job.sample

    @property
    def timeout_s(self) -> float | None:
        """How long the attempt may take."""
        return self.ticket.rules.timeout_s

    def shared(self, key: Hashable, make: Callable[[], C]) -> C:
        """Give what all attempts of the run have in common."""
        return self.steps.shared.get(key, make)

    @property
    def caller(self) -> Ticket:
        """The ticket in whose lane what is called here is."""
        return self.visit or self.ticket

    def again(self, weight: int) -> Awaitable[None]:
        """Wait until one more call may be made."""
        return self.steps.visits.again(self, weight)

    def learn(self, holder: Holder, told: RateLimits) -> None:
        """Take what an answer says of a holder's limits."""
        self.steps.visits.learn(self.caller, holder, told)

    @property
    def is_over(self) -> bool:
        """Whether the attempt has ended while this went on: what it comes to is fenced off."""
        return self.ticket.attempts != self.attempt or self.ticket.attempt is None

    def path_of(self, name: str) -> str:
        """Name a step that is called here: the same call of the same attempt always has the same name."""
        if self.calls is None:
            self.calls = Counter()
        self.calls[name] += 1
        return f"{self.path}/{name}#{self.calls[name]}" if self.path else f"{name}#{self.calls[name]}"

    def lend(self) -> Lock:
        """Give what a step must hold while it runs: the one slot of whoever calls it."""
        if self.slot is None:
            self.slot = Lock()
        return self.slot

    @property
    def address(self) -> str:
        """Where this is: run, item, generation and step; the same in every attempt of this generation."""
        job = self.ticket.job
        place = f"{self.steps.run_id}/{job.id}/{job.past.generation}"
        return f"{place}/{self.path}" if self.path else place

    @property
    def origin(self) -> str:
        """Which run this is of: the same for as long as it is recorded, and not that of another run of its name."""
        return self.steps.origin

    @property
    def loop(self) -> AbstractEventLoop:
        """The loop of the run."""
        return self.steps.loop

    @property
    def is_recorded(self) -> bool:
        """Whether what is shown is kept."""
        return self.steps.is_recorded

    def show(self, name: str, *, began_at: float, body: bytes | None, failure: Failure | None) -> None:
        """Let the trace show what another library has done here as a step of its own, which has ended now; no resume looks for it."""
        self.steps.show(self, self._path_in(name), began_at=began_at, body=body, failure=failure)

    def shown(self) -> list[str]:
        """Give the names of what was shown here, by earlier attempts too."""
        return self.steps.shown(self, self._path_in(""))

    def ask_on(self, name: str) -> None:
        """Let the next question of this name be the last one that was answered, or, where none was, the first."""
        self.calls = self.calls or Counter()
        self.calls[name] = max(0, self.steps.answered(self, self._path_in(f"{name}#")) - 1)

    def _path_in(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name

    def ask(self, question: Any, name: str = ASK) -> Awaitable[Any]:
        """Give the answer to a question, or end the attempt until there is one."""
        return self.steps.ask(self, question, name)

    def key(self) -> str:
        """Give a text that is the same in every attempt of this job or step, and nowhere else."""
        return digest(f"{self.origin}\n{self.ticket.job.id}\n{self.path}".encode(errors="surrogatepass")).hex()


current: ContextVar[Frame] = ContextVar("graphmill_frame")
is_worker_process = False  # set in processes of ours, where no frame can be had


def frame_here() -> Frame | None:
    """Give the frame in which this is called; None outside of a batch."""
    if is_worker_process:
        raise Permanent(
            "gm.step, gm.ask and gm.idempotency_key need the process of the run; leave out isolation='process'"
        )
    return current.get(None)


def idempotency_key() -> str:
    """Give the key to send with a request that must not happen twice: the same in every attempt of this job or step.

    Also after a crash, a resume, or a retry of the failed item.
    """
    frame = frame_here()
    if frame is None:
        raise UsageError(
            "an idempotency key belongs to a job: call gm.idempotency_key() in a function that a batch runs"
        )
    return frame.key()
