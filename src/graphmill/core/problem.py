"""A problem with its known answer, as datasets give it and scorers judge it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from graphmill.core.errors import UsageError

Domain = Literal["math", "code", "general"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem: its text and what a right answer is.

    ``ground_truth`` and ``metadata`` are for scorers. A workflow sees only the inputs that it declares, so a reference
    solution or hidden tests reach no agent.
    """

    id: str
    problem: str
    ground_truth: Any = None
    metadata: Mapping[str, Any] = {}
    domain: Domain = "general"

    def __post_init__(self) -> None:
        if type(self.id) is not str or not self.id:
            raise UsageError(f"a problem's id must be text, got {self.id!r:.80}")
        if type(self.problem) is not str:
            raise UsageError(f"the text of problem {self.id!r:.80} must be text, got {self.problem!r:.80}")
        if self.domain not in get_args(Domain):
            raise UsageError(
                f"the domain of problem {self.id!r:.80} must be one of {', '.join(get_args(Domain))}, got "
                f"{self.domain!r:.80}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return it as an item of a run."""
        return msgspec.structs.asdict(self) | {"metadata": dict(self.metadata)}
