"""What a job that is made of steps asks of the engine: a step, several strands side by side, something to be noted, or room."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from graphmill.core.errors import Permanent
from graphmill.core.job import Effect
from graphmill.core.json import json_bytes
from graphmill.core.result import Failure
from graphmill.core.usage import Usage
from graphmill.engine.policy import Policy, Retry
from graphmill.engine.scheduling.rate_limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRules:
    """How steps of one kind are attempted. Without a ``lane`` of their own they go in their job's; ``limits`` are those of the lane.

    One that is not recorded is done again after a restart; one with an unsafe effect must not happen twice, unless it
    ``is_retried_if_ambiguous``. ``redact`` removes secrets from the failure of an attempt.
    """

    retry: Retry
    timeout_s: float | None = None
    effect: Effect = "repeatable"
    lane: str | None = None
    limits: Limits | None = None
    isolation: Literal["process"] | None = None
    is_recorded: bool = True
    is_retried_if_ambiguous: bool = False
    redact: Callable[[Failure], Failure] | None = None


class Step:
    """Something to be attempted until it ends; ``path`` tells it from all other steps of its job, the same after a restart."""

    __slots__ = ("path", "rules")

    def __init__(self, path: str, rules: StepRules) -> None:
        self.path = path
        self.rules = rules

    @property
    def estimated_tokens(self) -> int:
        """How many tokens an attempt may take, where the rules limit them."""
        return 0

    def content(self) -> bytes:
        """Hash what decides its outcome: one that was recorded under the same path and hash stands."""
        raise NotImplementedError

    def act(self) -> Awaitable[Any]:
        """Make one attempt, on the loop."""
        raise NotImplementedError

    def call(self) -> tuple[Callable[[Any], Any], Any]:
        """Give the function to call in a worker process, and what with: where its rules ask for one, that is an attempt."""
        raise NotImplementedError


class StepEnd(NamedTuple):
    """How a step ended: with an output, or with the failure that used up its attempts."""

    output: Any
    failure: Failure | None
    attempts: int
    duration_s: float
    usage: Usage | None
    began_s: float


_NOTHING = object()


class Decision:
    """Something that a program decides itself and must decide the same after a restart; it takes no slot, no attempt and no time.

    It gets what was noted first under this ``path`` and ``content()``, as JSON gives it back; without a value it only asks, and gets
    None where nothing is noted. A retry of the job keeps it, unless it ``is_temporary``: then that decides anew.
    """

    __slots__ = ("body", "content", "is_temporary", "path", "value")

    def __init__(
        self,
        path: str,
        value: Any = _NOTHING,
        *,
        content: Callable[[], bytes] | None = None,
        is_temporary: bool = False,
    ) -> None:
        self.path = path
        self.content = content
        self.is_temporary = is_temporary
        self.body: bytes | None = None
        self.value: Any = None
        if value is not _NOTHING:
            self._hold(value)

    def _hold(self, value: Any) -> None:
        try:
            self.body = json_bytes(value)
            self.value = json.loads(self.body)
        except (TypeError, ValueError, RecursionError) as error:
            raise Permanent(f"what is noted as {self.path} is not JSON: {error}") from error


class Fork(Protocol):
    """Several programs side by side, each on a strand of its own, until there are no more and all have ended.

    Once ``is_stopped`` those under way are cancelled. With ``timeout_s`` it is stopped after that time by ``expire``.
    """

    is_stopped: bool
    timeout_s: float | None

    def more(self) -> Program | None:
        """Give the next program that may begin now; None for none now, until another has ended."""

    def ended(self, program: Program, value: Any, failure: Failure | None) -> None:
        """Take what a program has given, or the failure it ended with. One that was cancelled is not heard of again."""

    def expire(self) -> None:
        """Stop: the time is up."""


class NeedSpill:
    """Room outside of memory is wanted; the answer are Pages, or None where there are none."""

    __slots__ = ()


class Series(Protocol):
    """Items of a job, one after the other or several at once; ``count`` is None while nobody knows how many there are."""

    path: str

    @property
    def done(self) -> int:
        """How many have ended."""

    @property
    def count(self) -> int | None:
        """How many there are."""


class SeriesStarted:
    """A series has begun, and may be told of while it is under way; there is no answer."""

    __slots__ = ("series",)

    def __init__(self, series: Series) -> None:
        self.series = series


# It asks for a step and gets its StepEnd, for a note and gets what it says, for pages, or for a fork and goes on when that is over.
# It may tell that a series has begun. What it returns is its value.
Program: TypeAlias = Generator[Step | Decision | NeedSpill | SeriesStarted | Fork, Any, Any]


class Finished(NamedTuple):
    """What the program of a whole job returns: its output, and what is to be noted beside it."""

    output: Any
    metadata: Mapping[str, Any]


class Failed(Exception):  # noqa: N818  it carries what has been recorded already
    """Raised by a program that ends with a failure."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


class Programmed:
    """A graph whose jobs are made of steps."""

    __slots__ = ()

    def program(self, value: Any, policy: Policy) -> Program:
        """Begin a job with this input; it must only decide, and touch nothing outside."""
        raise NotImplementedError
