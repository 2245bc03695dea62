"""Where user code runs: which job, attempt and step. Found through a context variable, however deep the call.

Questions to people are here too: they are asked in this context.
"""

from __future__ import annotations

import json
from asyncio import AbstractEventLoop, Lock
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from graphmill.core.errors import Permanent, UsageError, cut, message_of
from graphmill.core.job import without_numbers
from graphmill.core.json import MOST_LEVELS, canonical, digest, is_too_deep, text_or_json, to_json
from graphmill.core.result import Failure, Kind
from graphmill.core.usage import RateLimits, Usage, add_usage, spender
from graphmill.engine.failures import paused

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from graphmill.engine.attempts.workers import Closable
    from graphmill.engine.jobs.state import AttemptState
    from graphmill.engine.jobs.steps import Steps
    from graphmill.engine.scheduling.lanes import SlotRequest
    from graphmill.engine.scheduling.nested_calls import NestedCall
    from graphmill.engine.scheduling.rate_limits import LimitsOwner

ASK = "ask"  # what a question is called in a path, as a step is by its function
_MAX_SHOWN_CHARS = 500
C = TypeVar("C", bound="Closable")


class AttemptContext:
    """One attempt of a job, or of the step at ``path`` inside it; ``parent`` is the context it was called in."""

    # fmt: off
    __slots__ = (
        "attempt", "calls", "child", "is_left", "nested_call", "number", "parent", "path", "span", "step_lock", "steps",
        "unrecorded", "usage",
    )
    # fmt: on

    def __init__(
        self,
        steps: Steps,
        attempt: AttemptState,
        path: str = "",
        *,
        number: int | None = None,
        parent: AttemptContext | None = None,
    ) -> None:
        self.steps = steps
        self.attempt = attempt
        self.number = attempt.number if number is None else number  # from 1; of the step if it is one
        self.path = path
        self.parent = parent
        self.child: AttemptContext | None = None  # of the step that runs inside now
        self.calls: Counter[str] | None = None
        self.step_lock: Lock | None = None
        self.usage: Usage | None = None
        self.unrecorded: Usage | None = None
        self.is_left = False
        self.nested_call: NestedCall | None = None
        self.span: Span | None = None  # where OpenTelemetry is used

    # -- what user code and nodes read ---------------------------------------------------------------------------------

    @property
    def item(self) -> str:
        """The id of the job."""
        return self.attempt.step.job.id

    @property
    def sample(self) -> int:
        """Which sample of its item the job is."""
        return self.attempt.step.job.sample

    @property
    def job_input(self) -> Any:
        """The input of the job; nobody may change it."""
        return self.attempt.step.job.input

    @property
    def timeout_s(self) -> float | None:
        """How long the attempt may take."""
        return self.attempt.step.rules.timeout_s

    @property
    def address(self) -> str:
        """Run, item, generation and step: the same in every attempt of this generation."""
        job = self.attempt.step.job
        address = f"{self.steps.recorder.run_id}/{job.id}/{job.past.generation}"
        return "/".join(filter(None, (address, self.path)))

    @property
    def origin(self) -> str:
        """Which run this belongs to: the same as long as it is recorded, and different for another run of its name."""
        return self.steps.origin

    @property
    def loop(self) -> AbstractEventLoop:
        """The loop of the run."""
        return self.steps.workers.loop

    @property
    def is_recorded(self) -> bool:
        """Whether the run is recorded."""
        return self.steps.recorder.is_recording

    @property
    def is_over(self) -> bool:
        """Whether the attempt has ended: whatever still comes from here is ignored."""
        return self.attempt.is_over

    def idempotency_key(self) -> str:
        """Return a text that is the same in every attempt of this job or step, and nowhere else."""
        text = f"{self.origin}\n{self.attempt.step.job.id}\n{self.path}"
        return digest(text.encode(errors="surrogatepass")).hex()

    def shared(self, key: Hashable, make: Callable[[], C]) -> C:
        """Return what all attempts of the run share under this key."""
        return self.steps.workers.shared.get(key, make)

    # -- usage ---------------------------------------------------------------------------------------------------------

    def report(
        self, usage: Usage, model: str, *, role: str = "", is_answer: bool = True, reserved_nano: int = 0
    ) -> None:
        """Add to the usage of the attempt, and of everything it is part of, however that ends.

        ``reserved_nano`` is what a budget had reserved for it.
        """
        gate = self.steps.budget_gate
        if gate is not None:
            gate.settle(reserved_nano, usage.cost_nano + usage.lost_nano)
            if usage.unpriced and not reserved_nano:
                gate.refuse_unpriced(model)
        if is_answer:
            self.attempt.step.record.add_models(model)
        self.steps.recorder.spend(self.attempt.step.job, spender(model, role, without_numbers(self.path)), usage)
        self.add_unrecorded(usage)
        self.add_usage(usage)

    def add_usage(self, usage: Usage) -> None:
        """Count usage that is recorded already."""
        context: AttemptContext | None = self
        while context is not None:
            context.usage = add_usage(context.usage, usage)
            context = context.parent

    def add_unrecorded(self, usage: Usage) -> None:
        """Note usage that no step inside the attempt is recorded with."""
        if self.is_left and self.parent is not None:
            self.parent.add_unrecorded(usage)
        else:
            self.unrecorded = add_usage(self.unrecorded, usage)

    def leave(self) -> None:
        """Hand the unrecorded usage of a discarded attempt to the caller, also what its threads report later."""
        self.is_left = True
        if self.unrecorded is not None:
            self.add_unrecorded(self.unrecorded)

    def unrecorded_usage(self) -> Usage | None:
        """Return usage that no step is recorded with, also that of a running step, which may outlive its attempt."""
        return self.unrecorded if self.child is None else add_usage(self.unrecorded, self.child.unrecorded_usage())

    # -- calls of models -----------------------------------------------------------------------------------------------

    @property
    def job_time_s(self) -> float:
        """Seconds since the job began, including those of earlier processes."""
        job = self.attempt.step.branch.job
        now, past = self.loop.time(), job.record.recall
        elapsed_s = now - job.began_at(now)
        if past is not None:
            elapsed_s += past.before_s
        return elapsed_s

    def record_call(self, encode: Callable[[Callable[[Failure], Failure] | None], bytes]) -> None:
        """Record a call of a model; ``encode`` gets what redacts the step's failures."""
        step = self.attempt.step
        self.steps.recorder.record_call(step.job, self.path, partial(encode, step.rules.redact))

    # -- the budget ----------------------------------------------------------------------------------------------------

    @property
    def has_budget(self) -> bool:
        """Whether the run has one."""
        return self.steps.budget_gate is not None

    async def reserve(self, nano: int) -> bool:
        """Wait until the budget has room for a call that costs at most this; return whether it had to wait."""
        return self.steps.budget_gate is not None and await self.steps.budget_gate.reserve(self.attempt, nano)

    def release(self, nano: int) -> None:
        """Return what was reserved for a call that used nothing."""
        if self.steps.budget_gate is not None:
            self.steps.budget_gate.settle(nano, 0)

    # -- nested calls --------------------------------------------------------------------------------------------------

    @property
    def slot(self) -> SlotRequest:
        """The slot whose lane a call from here belongs to."""
        slot = self.nested_call or self.attempt.step.slot
        assert slot is not None  # noqa: S101
        return slot

    def wait_for_next_call(self, estimated_tokens: int) -> Awaitable[None]:
        """Wait until one more call may be made."""
        return self.steps.nested_calls.wait_for_next(self, estimated_tokens)

    def learn_limits(self, owner: LimitsOwner, stated: RateLimits) -> None:
        """Apply what a response says about rate limits."""
        self.steps.nested_calls.learn_limits(self.slot, owner, stated)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def path_of(self, name: str) -> str:
        """Name a step that is called here: the same call always has the same name."""
        if self.calls is None:
            self.calls = Counter()
        self.calls[name] += 1
        return self._path_in(f"{name}#{self.calls[name]}")

    def lock_step(self) -> Lock:
        """Return the lock that a step holds while it runs: the caller has one slot."""
        if self.step_lock is None:
            self.step_lock = Lock()
        return self.step_lock

    def show(self, name: str, *, began_at: float, body: bytes | None, failure: Failure | None) -> None:
        """Show what another library did here in the trace, as a step that has just ended; it is not replayed."""
        self.steps.show(self, self._path_in(name), began_at=began_at, body=body, failure=failure)

    def shown(self) -> list[str]:
        """Return the names of what was shown here, by earlier attempts too."""
        return self.steps.shown(self, self._path_in(""))

    def ask(self, question: Any, name: str = ASK) -> Awaitable[Any]:
        """Return the answer to a question, or end the attempt until there is one."""
        return self.steps.ask(self, question, name)

    def repeat_last_question(self, name: str) -> None:
        """Make the next question of this name the last one that was answered or, if none was, the first."""
        self.calls = self.calls or Counter()
        self.calls[name] = max(0, self.steps.answered(self, self._path_in(f"{name}#")) - 1)

    def _path_in(self, name: str) -> str:
        if not self.path:
            return name
        return f"{self.path}/{name}"


current_context: ContextVar[AttemptContext] = ContextVar("graphmill_context")
is_worker_process = False  # set in our worker processes, which have no context


def find_context() -> AttemptContext | None:
    """Return the context in which this is called; None outside a batch."""
    if is_worker_process:
        raise Permanent(
            "gm.step, gm.ask and gm.idempotency_key need the process of the run; leave out isolation='process'"
        )
    return current_context.get(None)


def idempotency_key() -> str:
    """Return the key to send with a request that must not happen twice: the same in every attempt of this job or step.

    Also after a crash, a resume, or a retry of the failed item.
    """
    context = find_context()
    if context is None:
        raise UsageError(
            "an idempotency key belongs to a job: call gm.idempotency_key() in a function that a batch runs"
        )
    return context.idempotency_key()


class Question(NamedTuple):
    """A question to a person, as JSON; ``path`` and ``content`` identify it in its job, also after a restart."""

    path: str
    content: bytes
    value: Any

    @classmethod
    def make(cls, path: str, value: Any, redact: Callable[[Failure], Failure] | None = None) -> Question:
        """Check a question: Permanent if it is not JSON. ``redact`` removes secrets."""
        try:
            text = to_json(value)
            plain = _redacted(text, redact)
            too_deep = is_too_deep(plain)
        except RecursionError:
            too_deep = True
        except (TypeError, ValueError) as error:
            raise Permanent(f"the question {path} is not JSON: {message_of(error)}") from error
        if too_deep:
            raise Permanent(f"the question {path} is nested deeper than {MOST_LEVELS} levels")
        return cls(path, digest(canonical(plain)), plain)

    def to_metadata(self) -> dict[str, Any]:
        """Return it as a result's metadata holds it."""
        return {"path": self.path, "question": self.value, "content": self.content.hex()}

    @classmethod
    def from_metadata(cls, note: Mapping[str, Any]) -> Question:
        """Read it from a result's metadata."""
        return cls(note["path"], bytes.fromhex(note["content"]), note["question"])


class Waiting(BaseException):
    """Ends an attempt that asked a question; no Exception, so that code which catches those lets it pass."""


def waiting_for_answers(questions: Iterable[Question]) -> Failure:
    """Return the failure of a job that waits for answers."""
    asked = "; ".join(cut(text_or_json(question.value), _MAX_SHOWN_CHARS) for question in questions)
    return Failure(kind=Kind.PAUSED, message=f"waits for an answer: {asked}", type="graphmill.Waiting")


def is_question(failure: Failure | None) -> bool:
    """Whether a step waits for an answer: that is no outcome, and nothing may handle it."""
    return failure is not None and failure.kind is Kind.PAUSED


def question_metadata(questions: Iterable[Question]) -> dict[str, Any]:
    """Return the metadata of a result with open questions."""
    return {"questions": [question.to_metadata() for question in questions]}


def _redacted(text: str, redact: Callable[[Failure], Failure] | None) -> Any:
    """Read JSON without its secrets; as text, if it is no JSON without them."""
    if redact is None or (redacted := redact(paused(text)).message) == text:
        return json.loads(text)
    try:
        return json.loads(redacted)
    except ValueError:
        return redacted
