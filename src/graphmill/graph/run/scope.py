"""Where in a job a node runs, what it has used, and how it failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphmill.core.result import Failure
from graphmill.core.usage import Usage, added
from graphmill.engine.failures import failure_of, kind_of
from graphmill.engine.jobs.context import is_question
from graphmill.engine.jobs.program import StepEnd
from graphmill.engine.results.recorder import SpilledOutcomes
from graphmill.graph.node_type import Output

if TYPE_CHECKING:
    from graphmill.graph.models.models import Models


class Room:
    """Where a job puts what is too much for memory: None before it has asked, and where there is none.

    Once it ``is_used``, some of what templates find are sequences that are not in memory.
    """

    __slots__ = ("is_asked", "is_used", "pages")

    def __init__(self) -> None:
        self.pages: SpilledOutcomes | None = None
        self.is_asked = False
        self.is_used = False


class Place:
    """``scope`` maps the names that templates begin with; ``prefix`` is the path of what this is inside of.

    ``room`` and ``flags`` are the job's; ``root`` is the folder of the workflow file, ``models`` are those that its nodes ask.
    """

    __slots__ = ("flags", "meter", "models", "prefix", "room", "root", "scope")

    def __init__(
        self,
        scope: dict[str, Any],
        prefix: str,
        meter: Meter | None,
        flags: set[str],
        room: Room,
        root: Path | None,
        models: Models | None,
    ) -> None:
        self.scope = scope
        self.prefix = prefix
        self.meter = meter
        self.flags = flags
        self.room = room
        self.root = root
        self.models = models

    def path_of(self, name: str) -> str:
        """Give the path of a node here."""
        return f"{self.prefix}{name}"

    def within(self, names: Mapping[str, Any], *, meter: Meter | None = None) -> Place:
        """Give the same place with more names in sight."""
        return Place(
            {**self.scope, **names}, self.prefix, meter or self.meter, self.flags, self.room, self.root, self.models
        )


class NodeFailed(Exception):  # noqa: N818  it carries what has been recorded already
    """A node's failure; ``values`` is what can be read of it all the same, where its error is handled."""

    def __init__(self, failure: Failure, *, attempts: int = 0, values: Mapping[str, Any] | None = None) -> None:
        self.failure = failure
        self.attempts = attempts
        self.values = values or {}
        super().__init__(str(failure))

    @property
    def is_question(self) -> bool:
        """Whether it has not failed but waits for an answer: nothing may handle that, and nothing else fails by it."""
        return is_question(self.failure)

    @classmethod
    def of(cls, error: Exception, redact: Callable[[Failure], Failure] | None = None) -> NodeFailed:
        """Take an error of our own making, such as a name that is missing in a template; ``redact`` removes secrets."""
        failure = failure_of(error, kind_of(error))
        return cls(failure if redact is None else redact(failure))

    def output(self) -> Output:
        """Give what the nodes behind an error edge read."""
        error = {
            "message": self.failure.message,
            "kind": str(self.failure.kind),
            "type": self.failure.type,
            "attempts": self.attempts,
        }
        return Output({**self.values, "error": error}, "error")


class Meter:
    """Adds up the steps of one item, one loop or one job; all of it is recorded, so that it reads the same after a resume."""

    __slots__ = ("_began_s", "_ended_s", "above", "attempts", "usage")

    def __init__(self, above: Meter | None = None) -> None:
        self.above = above
        self.attempts = 0
        self.usage: Usage | None = None
        self._began_s = inf
        self._ended_s = -inf

    def add(self, end: StepEnd) -> None:
        """Count a step, here and in all that this is a part of."""
        meter: Meter | None = self
        while meter is not None:
            meter._count(end)
            meter = meter.above

    @property
    def began_s(self) -> float:
        """When the first step began."""
        return 0.0 if self._began_s is inf else self._began_s

    @property
    def ended_s(self) -> float:
        """When the last step ended."""
        return 0.0 if self._began_s is inf else self._ended_s

    @property
    def cost_usd(self) -> float:
        """What is known of the cost."""
        return 0.0 if self.usage is None else self.usage.cost_usd or 0.0

    def _count(self, end: StepEnd) -> None:
        self.attempts = max(self.attempts, end.attempts)
        self._began_s = min(self._began_s, end.began_s)
        self._ended_s = max(self._ended_s, end.began_s + end.duration_s)
        self.usage = added(self.usage, end.usage)
