"""How a node ends for one job: with an output, or with the failure that its retries have left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphmill.core.result import Failure
from graphmill.engine.failures import failure_of, kind_of
from graphmill.engine.question import is_question
from graphmill.graph.node_type import Output


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
