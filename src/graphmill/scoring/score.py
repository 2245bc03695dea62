"""A score, and what a scorer is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from graphmill.core.errors import UsageError

CORRECT, WRONG, UNDECIDED, NO_ANSWER = "correct", "wrong", "undecided", "no_answer"
GRADED = "graded"  # neither quite right nor quite wrong
INFRASTRUCTURE = "infrastructure"  # the item failed before it had an answer: neither right nor wrong
SCORER_FAILED = "scorer_failed"
LEFT_OUT = frozenset({INFRASTRUCTURE, SCORER_FAILED})


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """What a scorer found: a ``value`` from 0 to 1, the ``answer`` it compared, and why.

    A value of None is undecided: the grader hit its own limit. ``metadata["outcome"]`` is the name under which the
    score is counted, such as ``correct``, ``wrong``, ``no_answer`` or ``timeout``; without it the value decides.
    """

    value: float | None
    answer: Any = None
    explanation: str = ""
    metadata: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        if self.value is not None and (isinstance(self.value, bool) or not 0 <= self.value <= 1):
            raise UsageError(f"a score's value must be a number from 0 to 1, or None, got {self.value!r:.80}")

    @property
    def outcome(self) -> str:
        """The name under which it is counted."""
        named = self.metadata.get("outcome")
        if isinstance(named, str):
            return named
        if self.value is None:
            return UNDECIDED
        if self.value == 1:
            return CORRECT
        return WRONG if self.value == 0 else GRADED

    def to_json(self) -> dict[str, Any]:
        """Return it as data."""
        return msgspec.structs.asdict(self) | {"metadata": dict(self.metadata), "outcome": self.outcome}
