"""The trace of a job for the reader: a tree with times, attempts, errors and usage; and one step in full."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from graphmill.journal.bodies import usage_from
from graphmill.journal.records import AttemptRow, StepRow
from graphmill.report.batch_text import batch_view
from graphmill.report.text import columns, counted, seconds, tries, usage_text
from graphmill.report.trace import (
    MOST_BYTES,
    Branch,
    Folded,
    body_text,
    error_message,
    folded,
    read_body,
    read_output,
    visible,
)

_NAME_CHARS = 60
_TEXT_CHARS = 80
_ATTEMPTS_SHOWN = 3
_MOST_LINES = 1000

Cells = tuple[str, str, str, str]


def trace_lines(trace: Branch, generation: int = 1) -> list[str]:
    """Draw what is below a part of a trace, one line each; a step of an earlier generation than this says so."""
    rows = [row for child in folded(trace).children for row in _rows(child, 0, generation)]
    cut = [f"… and {len(rows) - _MOST_LINES:,} more lines; --step PATH shows a part"] if len(rows) > _MOST_LINES else []
    return columns(rows[:_MOST_LINES]) + cut if rows else []


def _rows(part: Folded, depth: int, generation: int) -> Iterator[Cells]:
    branch, indent = part.branch, "  " * depth
    began, took = (
        ("", "") if not branch.step_count else (f"+{seconds(branch.began_s)}", seconds(branch.ended_s - branch.began_s))
    )
    yield f"{indent}{visible(branch.name, _NAME_CHARS)}", began, took, _told(branch, generation)
    inner = "  " * (depth + 1)
    failed = branch.failed_attempts
    for attempt in failed[:_ATTEMPTS_SHOWN]:
        earlier = f" · of generation {attempt.generation}" if attempt.generation < generation else ""
        yield f"{inner}attempt {attempt.attempt}", "", "", visible(error_message(attempt.error), _TEXT_CHARS) + earlier
    if len(failed) > _ATTEMPTS_SHOWN:
        yield f"{inner}… and {len(failed) - _ATTEMPTS_SHOWN:,} more failed attempts", "", "", ""
    for child in part.children:
        yield from _rows(child, depth + 1, generation)
    if part.hidden:
        yield f"{inner}… and {part.hidden.total():,} more", "", "", _counted(part.hidden)


def _told(branch: Branch, generation: int) -> str:
    row, usage = branch.row, branch.usage
    parts = [_outcome(branch)]
    if row is not None and row.attempts > 1:
        parts.insert(0, tries(row.attempts))
    if usage is not None:
        parts.append("cached" if not (usage.requests or usage.tokens) else usage_text(usage.counts, usage.cost_usd))
    if row is not None and row.generation < generation:
        parts.append(f"of generation {row.generation}")
    return " · ".join(filter(None, parts))


def _outcome(branch: Branch) -> str:
    if branch.row is not None:
        failed = branch.row.error is not None
        return (
            f"failed: {visible(error_message(branch.row.error), _TEXT_CHARS)}"
            if failed
            else body_text(branch.row.output, _TEXT_CHARS)
        )
    if branch.is_batch:
        return batch_view(branch).summary()
    if branch.rounds:
        return counted(len(branch.rounds), "round")
    return "" if branch.step_count else "not ended"


def _counted(counts: Counter[str]) -> str:
    return ", ".join(
        f"{counts[standing]:,} {standing}" for standing in ("succeeded", "failed", "unfinished") if counts[standing]
    )


def trace_record(part: Branch) -> list[dict[str, Any]]:
    """Give what is below a part of a trace as data, folded as it is drawn; docs/cli.md describes the fields."""
    return [_record(child) for child in folded(part).children]


def _record(part: Folded) -> dict[str, Any]:
    branch = part.branch
    return {
        "path": branch.path,
        "place": branch.place,
        "standing": branch.standing,
        "began_s": round(branch.began_s, 6),
        "duration_s": round(branch.ended_s - branch.began_s, 6),
        "steps": branch.step_count,
        "attempts": None if branch.row is None else branch.row.attempts,
        "usage": None if branch.usage is None else branch.usage.to_json(),
        "error": None if branch.row is None else read_body(branch.row.error),
        "items": None if not branch.is_batch else _items_record(branch),
        "children": [_record(child) for child in part.children],
        "hidden": {"count": part.hidden.total(), **_standings(part.hidden)} if part.hidden else None,
    }


def _items_record(branch: Branch) -> dict[str, int]:
    noted = branch.batch
    if noted is None:
        return {"count": branch.item_count, **_standings(branch.counts), "cancelled": 0}
    return {
        "count": noted.count,
        "succeeded": noted.succeeded,
        "failed": noted.failed,
        "unfinished": 0,
        "cancelled": noted.cancelled,
    }


def _standings(counts: Counter[str]) -> dict[str, int]:
    return {standing: counts[standing] for standing in ("succeeded", "failed", "unfinished")}


def step_lines(branch: Branch, generation: int = 1) -> list[str]:
    """Show one step in full, or what is below a part that is none."""
    row = branch.row
    if row is None:
        return [f"{branch.path}: {_outcome(branch)}", *trace_lines(branch, generation)]
    head = [
        f"step {branch.path}",
        branch.standing,
        tries(row.attempts),
        seconds(row.duration_s),
        f"began at +{seconds(row.began_s)}",
    ]
    usage = "" if branch.usage is None else usage_text(branch.usage.counts, branch.usage.cost_usd)
    lines = [" · ".join(filter(None, [*head, usage, f"generation {row.generation}" if row.generation > 1 else ""]))]
    lines += [f"attempt {attempt.attempt} failed: {error_message(attempt.error)}" for attempt in branch.failed_attempts]
    lines += _error_lines(row) if row.error is not None else _output_lines(row)
    return lines + (
        ["steps inside:", *(f"  {line}" for line in trace_lines(branch, generation))] if branch.below else []
    )


def _output_lines(row: StepRow) -> list[str]:
    output, action = read_output(row)
    lines = [] if action in (None, "default") else [f"action: {action}"]
    return [*lines, "output:", *json.dumps(output, ensure_ascii=False, indent=2).splitlines()]


def _error_lines(row: StepRow) -> list[str]:
    error = read_body(row.error)
    trail, answer = (error.get("traceback", ""), error.get("answer", "")) if isinstance(error, dict) else ("", "")
    lines = [f"error: {error_message(row.error)}", *(f"  {line}" for line in trail.split("\n") if line.strip())]
    return [*lines, "answer:", *(f"  {line}" for line in answer.split("\n"))] if answer else lines


def step_record(row: StepRow, *, is_full: bool = False) -> dict[str, Any]:
    """Give one step as data; unless it is to be full, of a long output only the beginning, as text."""
    is_cut = not is_full and row.output is not None and len(row.output) > MOST_BYTES
    output, action = (body_text(row.output, MOST_BYTES), None) if is_cut else read_output(row)
    return {
        "generation": row.generation,
        "step": row.path,
        "attempts": row.attempts,
        "began_s": round(row.began_s, 6),
        "duration_s": round(row.duration_s, 6),
        "output": output,
        "is_shortened": is_cut,
        "action": action,
        "error": read_body(row.error),
        "usage": _usage_record(row.usage),
    }


def part_record(branch: Branch) -> dict[str, Any]:
    """Give one part of a trace as data: the step in full if it is one, its failed attempts, and what is below."""
    return {
        "path": branch.path,
        "standing": branch.standing,
        "step": None if branch.row is None else step_record(branch.row, is_full=True),
        "attempts": attempt_records(branch.failed_attempts),
        "trace": trace_record(branch),
    }


def attempt_records(rows: Sequence[AttemptRow]) -> list[dict[str, Any]]:
    """Give attempts as data."""
    return [
        {
            "generation": row.generation,
            "step": row.path,
            "attempt": row.attempt,
            "kind": row.kind,
            "error": read_body(row.error),
            "usage": _usage_record(row.usage),
        }
        for row in rows
    ]


def _usage_record(body: bytes | None) -> dict[str, Any] | None:
    usage = usage_from(body)
    return None if usage is None else usage.to_json()
