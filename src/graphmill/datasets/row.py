"""The result row: the form in which all files and streams hold results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def flat_columns(row: Row) -> Iterator[tuple[str, Any]]:
    """Split the mappings of a row into one column per field: ``output.answer``."""
    for name, value in row.items():
        if isinstance(value, dict) and value:
            parts = _parts_of_scores(value) if name == SCORES else value
            yield from ((f"{name}.{field}", entry) for field, entry in parts.items())
        else:
            yield name, value


def _parts_of_scores(scores: Row) -> Row:
    """Make a column for each part of each score."""
    return {f"{scorer}.{part}": entry for scorer, score in scores.items() for part, entry in score.items()}


def note_columns(columns: dict[str, bool], flat: Row) -> None:
    """Note which columns there are, and whether any row has a value there; empty metadata are none."""
    for name, value in flat.items():
        has_value = value is not None and (name, value) != ("metadata", {})
        columns[name] = columns.get(name, False) or has_value


def column_order(columns: Mapping[str, bool]) -> list[str]:
    """Order columns by field; of those without any value (False), leave out one whose parts have columns of their own."""
    split = {column.partition(".")[0] for column in columns if "." in column}
    kept = [column for column, is_used in columns.items() if is_used or column not in split]
    return sorted(kept, key=lambda column: ROW_FIELDS.index(column.partition(".")[0])) or list(ROW_FIELDS)
