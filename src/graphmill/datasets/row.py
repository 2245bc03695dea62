"""The result row: the form in which all files and streams hold results."""

from __future__ import annotations

from typing import Any

from graphmill.core.result import Failure, Result
from graphmill.core.usage import counts_json

Row = dict[str, Any]
SCORES = "scores"  # where the scores of a result stand, in its metadata and in its row

ROW_FIELDS = (
    "id",
    "status",
    "input",
    "output",
    "error",
    "attempts",
    "queued_s",
    "duration_s",
    "usage",
    "cost_usd",
    "metadata",
    SCORES,
)


def row_of(result: Result) -> Row:
    """Return a result as a row; docs/results.md describes the fields."""
    row = {
        "id": result.job_id,
        "status": str(result.status),
        "input": result.input,
        "output": result.output,
        "error": None if result.error is None else _error(result.error),
        "attempts": result.attempts,
        "queued_s": round(result.queued_s, 6),
        "duration_s": round(result.duration_s, 6),
        "usage": None if result.usage is None else counts_json(result.usage),
        "cost_usd": result.cost_usd,
        "metadata": result.metadata,
    }
    if SCORES in result.metadata:  # of a run that was scored
        row["metadata"] = {name: value for name, value in result.metadata.items() if name != SCORES}
        row[SCORES] = result.metadata[SCORES]
    return row


def _error(error: Failure) -> Row:
    row = {"kind": str(error.kind), "type": error.type, "message": error.message, "traceback": error.traceback}
    if error.answer:
        row["answer"] = error.answer
    if error.cause:
        row["cause"] = error.cause
    return row
