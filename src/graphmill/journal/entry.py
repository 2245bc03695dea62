"""From recorded rows to what readers are given."""

from __future__ import annotations

import json
from typing import Any

from graphmill.core.result import Result
from graphmill.journal.bodies import failure_from
from graphmill.journal.records import Entry, ResultRow


def to_entry(row: ResultRow, *, at: float, is_orphaned: bool) -> Entry:
    """Give a recorded row as a result; ValueError, KeyError or TypeError for bodies that are not what we write."""
    more = _value(row.more) or {}
    metadata: dict[str, Any] = more.get("metadata", {})
    if row.generation > 1:
        metadata["generation"] = row.generation
    if row.input is None:
        metadata["input_left_out"] = "it was not plain data"
    if is_orphaned:
        metadata["orphaned"] = True
    result = Result(
        job_id=row.item_id,
        position=row.position,
        status=row.status,
        input=_value(row.input),
        output=_value(row.output),
        error=None if row.error is None else failure_from(row.error),
        attempts=row.attempts,
        queued_s=row.queued_s,
        duration_s=row.duration_s,
        usage=more.get("usage"),
        cost=more.get("cost"),
        metadata=metadata,
    )
    return Entry(row.key, row.generation, at, is_orphaned, result)


def _value(body: bytes | None) -> Any:
    return None if body is None else json.loads(body)
