"""Programs: jobs made of steps. A program is a generator that asks the engine for steps, decisions and forks."""

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
    """How steps of one kind are attempted. ``lane`` is by default their job's; ``limits`` belong to the lane.

    A step that is not recorded is repeated after a restart. One with an unsafe effect must not happen twice, unless it
    ``is_retried_if_ambiguous``. ``memory_bytes`` is the limit of a step in a worker process. ``redact`` removes secrets
    from failures.
    """

    retry: Retry
    timeout_s: float | None = None
    effect: Effect = "repeatable"
    lane: str | None = None
    limits: Limits | None = None
    isolation: Literal["process"] | None = None
    memory_bytes: int | None = None
    is_recorded: bool = True
    is_retried_if_ambiguous: bool = False
    redact: Callable[[Failure], Failure] | None = None


class Step:
    """Something to attempt; ``path`` identifies it in its job, also after a restart."""

    __slots__ = ("path", "rules")

    def __init__(self, path: str, rules: StepRules) -> None:
        self.path = path
        self.rules = rules

    def estimate_tokens(self) -> int:
        """Estimate how many tokens an attempt may use."""
        return 0

    def content(self) -> bytes:
        """Hash everything that decides its outcome: one recorded under the same path and hash is reused."""
        raise NotImplementedError

    def act(self) -> Awaitable[Any]:
        """Attempt it once, on the loop."""
        raise NotImplementedError

    def call(self) -> tuple[Callable[[Any], Any], Any]:
        """Return function and argument of an attempt in a worker process."""
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
    """A value that a program must decide the same way after a restart; it takes no slot and no attempt.

    The answer is what was recorded first under this ``path`` and ``content()``, as JSON returns it. Without a value it
    only asks, and gets None if nothing is recorded. A retry of the job keeps it, unless it ``is_temporary``.
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
            self._set(value)

    def _set(self, value: Any) -> None:
        try:
            self.body = json_bytes(value)
            self.value = json.loads(self.body)
        except (TypeError, ValueError, RecursionError) as error:
            raise Permanent(f"the value recorded as {self.path} is not JSON: {error}") from error


class Fork(Protocol):
    """Several programs side by side, each in a branch of its own, until there are no more and all have ended.

    Once ``is_stopped`` the running ones are cancelled. After ``timeout_s``, ``expire`` stops it.
    """

    is_stopped: bool
    timeout_s: float | None

    def more(self) -> Program | None:
        """Return the next program that may begin now; None if there is none until another has ended."""

    def ended(self, program: Program, value: Any, failure: Failure | None) -> None:
        """Take what a program returned, or its failure. Cancelled ones are not reported."""

    def expire(self) -> None:
        """Stop: the time is up."""


class NeedSpill:
    """Asks for disk space; the answer is a SpilledOutcomes, or None if there is none."""

    __slots__ = ()


class Series(Protocol):
    """Items inside a job; ``count`` is None while it is unknown."""

    path: str

    @property
    def done(self) -> int:
        """How many have ended."""

    @property
    def count(self) -> int | None:
        """How many there are."""


class SeriesStarted:
    """Reports that a series has begun, for progress; there is no answer."""

    __slots__ = ("series",)

    def __init__(self, series: Series) -> None:
        self.series = series


# A program yields a step and gets its StepEnd, a decision and gets its value, or a fork and continues when that is
# over.
Program: TypeAlias = Generator[Step | Decision | NeedSpill | SeriesStarted | Fork, Any, Any]


class Finished(NamedTuple):
    """What the program of a job returns: its output, and metadata for its result."""

    output: Any
    metadata: Mapping[str, Any]


class Failed(Exception):  # noqa: N818  it carries a failure
    """Raised by a program that ends with a failure."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


class Programmed:
    """A graph whose jobs are made of steps."""

    __slots__ = ()

    def program(self, value: Any, policy: Policy) -> Program:
        """Begin a job with this input. A program only decides; it must touch nothing outside."""
        raise NotImplementedError
