"""What a batch inside a job has noted at its end: how many items ended how, and its first errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphmill.journal.records import StepRow

BATCH = "#batch"  # after the path of its node


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNote:
    """``failed`` counts those that timed out too; ``at_s`` is about when it ended, from the job's beginning."""

    generation: int
    at_s: float
    succeeded: int
    failed: int
    timed_out: int
    cancelled: int
    is_degraded: bool
    errors: Sequence[Mapping[str, Any]]

    @property
    def count(self) -> int:
        """How many items there were."""
        return self.succeeded + self.failed + self.cancelled

    @property
    def is_failed(self) -> bool:
        """Whether the batch has failed, and not only some of its items."""
        return self.failed > 0 and not self.is_degraded


def batch_note(row: StepRow, at_s: float) -> BatchNote:
    """Read a note."""
    found = json.loads(row.noted or b"{}")
    return BatchNote(
        generation=row.generation,
        at_s=at_s,
        succeeded=found["succeeded"],
        failed=found["failed"] + found["timed_out"],
        timed_out=found["timed_out"],
        cancelled=found["cancelled"],
        is_degraded=found["degraded"],
        errors=found["errors"],
    )
