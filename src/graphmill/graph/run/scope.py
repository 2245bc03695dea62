"""Where in a job a node runs, what it has used so far, and how it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphmill.core.result import Failure
from graphmill.core.usage import Usage, add_usage
from graphmill.engine.failures import failure_of, kind_of
from graphmill.engine.jobs.context import is_question
from graphmill.engine.jobs.program import StepEnd
from graphmill.engine.results.recorder import SpilledOutcomes
from graphmill.graph.node_type import Output

if TYPE_CHECKING:
    from graphmill.graph.models.models import Models


class Scope:
    """Where in a job a node runs: the ``names`` that templates can look up, and the ``prefix`` of step paths.

    ``spill`` and ``flags`` are the job's; ``root`` is the folder of the workflow file; ``models`` are those that nodes
    call.
    """

    __slots__ = ("flags", "meter", "models", "names", "prefix", "root", "spill")

    def __init__(
        self,
        names: dict[str, Any],
        prefix: str,
        meter: Meter | None,
        flags: set[str],
        spill: SpillState,
        root: Path | None,
        models: Models | None,
    ) -> None:
        self.names = names
        self.prefix = prefix
        self.meter = meter
        self.flags = flags
        self.spill = spill
        self.root = root
        self.models = models

    def with_names(self, names: Mapping[str, Any], *, meter: Meter | None = None) -> Scope:
        """Return this scope with more names."""
        inner = {**self.names, **names}
        return Scope(inner, self.prefix, meter or self.meter, self.flags, self.spill, self.root, self.models)


class SpillState:
    """Where a job puts what is too large for memory; ``pages`` is None until requested, or without such a place.

    Once it ``is_used``, some of the values that templates find are sequences on disk.
    """

    __slots__ = ("is_requested", "is_used", "pages")

    def __init__(self) -> None:
        self.pages: SpilledOutcomes | None = None
        self.is_requested = False
        self.is_used = False


class Meter:
    """Sums the steps of an item, loop or job, from recorded figures only: a resumed job has the same sums."""

    __slots__ = ("_began_s", "_ended_s", "attempts", "parent", "usage")

    def __init__(self, parent: Meter | None = None) -> None:
        self.parent = parent
        self.attempts = 0
        self.usage: Usage | None = None
        self._began_s = inf
        self._ended_s = -inf

    def add(self, end: StepEnd) -> None:
        """Count a step, here and in all parents."""
        meter: Meter | None = self
        while meter is not None:
            meter.count(end)
            meter = meter.parent

    @property
    def began_s(self) -> float:
        """When the first step began."""
        return 0.0 if self._began_s is inf else self._began_s

    @property
    def ended_s(self) -> float:
        """When the last step ended."""
        return 0.0 if self._began_s is inf else self._ended_s

    @property
    def cost_nano(self) -> int:
        """The known cost."""
        return 0 if self.usage is None else self.usage.cost_nano

    def count(self, end: StepEnd) -> None:
        """Count a step, here alone."""
        self.attempts = max(self.attempts, end.attempts)
        self._began_s = min(self._began_s, end.began_s)
        self._ended_s = max(self._ended_s, end.began_s + end.duration_s)
        self.usage = add_usage(self.usage, end.usage)


class NodeFailed(Exception):  # noqa: N818  it carries what has been recorded already
    """A node failed after its retries; ``values`` can still be read where its error is handled."""

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
        """Wrap an error that was raised outside an attempt, such as a name that a template does not find."""
        failure = failure_of(error, kind_of(error))
        return cls(failure if redact is None else redact(failure))

    def error(self) -> dict[str, Any]:
        """Return what templates read as ``error``."""
        return {
            "message": self.failure.message,
            "kind": str(self.failure.kind),
            "type": self.failure.type,
            "attempts": self.attempts,
        }

    def output(self) -> Output:
        """Return what the nodes after an error edge read."""
        return Output({**self.values, "error": self.error()}, "error")
