"""The trace of a job as a tree with times, attempts, errors, usage and conversations; and one step in full."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from graphmill.journal.bodies import usage_from
from graphmill.journal.records import AttemptRow, StepRow
from graphmill.report.item.batches import batch_view
from graphmill.report.item.conversation import call_record, conversation_lines
from graphmill.report.item.trace import (
    MOST_BYTES,
    FoldedPart,
    TracePart,
    body_text,
    error_message,
    fold,
    read_body,
    read_output,
    visible,
)
from graphmill.report.text import align_columns, count_text, duration_text, traceback_lines
from graphmill.report.usage import usage_text

_NAME_CHARS = 60
_TEXT_CHARS = 80
_ATTEMPTS_SHOWN = 3
_MOST_ROWS = 1000
_STATUSES = ("succeeded", "failed", "unfinished")

Cells = tuple[str, str, str, str]


def trace_lines(trace: TracePart, generation: int = 1, *, is_full: bool = False) -> list[str]:
    """Draw everything below a part, with what was said to models; steps of earlier generations are marked."""
    rows = [row for child in fold(trace).children for row in _rows(child, 0, generation, is_full=is_full)]
    lines: list[str] = []
    for line, row in zip(align_columns([row.cells for row in rows[:_MOST_ROWS]]), rows, strict=False):
        lines += [line, *row.below]
    if len(rows) > _MOST_ROWS:
        lines.append(f"… and {len(rows) - _MOST_ROWS:,} more lines; --step PATH shows a part")
    return lines


class _Row(NamedTuple):
    """A line in columns, and the lines below it, which are as wide as they like."""

    cells: Cells
    below: Sequence[str] = ()


def _rows(folded: FoldedPart, depth: int, generation: int, *, is_full: bool) -> Iterator[_Row]:
    part = folded.part
    began = took = ""
    if part.step_count:
        began, took = f"+{duration_text(part.began_s)}", duration_text(part.ended_s - part.began_s)
    inner = "  " * (depth + 1)
    cells = f"{'  ' * depth}{visible(part.name, _NAME_CHARS)}", began, took, _part_text(part, generation)
    yield _Row(cells, [f"{inner}{line}" for line in conversation_lines(part.calls, is_full=is_full)])
    shown = {call.attempt for call in part.calls if call.error is not None}
    failed = [attempt for attempt in part.failed_attempts if attempt.attempt not in shown]
    for attempt in failed[:_ATTEMPTS_SHOWN]:
        text = visible(error_message(attempt.error), _TEXT_CHARS)
        if attempt.generation < generation:
            text += f" · generation {attempt.generation}"
        yield _Row((f"{inner}attempt {attempt.attempt}", "", "", text))
    if len(failed) > _ATTEMPTS_SHOWN:
        yield _Row((f"{inner}… and {len(failed) - _ATTEMPTS_SHOWN:,} more failed attempts", "", "", ""))
    for child in folded.children:
        yield from _rows(child, depth + 1, generation, is_full=is_full)
    if folded.hidden:
        yield _Row((f"{inner}… and {folded.hidden.total():,} more", "", "", _counts_text(folded.hidden)))


def _part_text(part: TracePart, generation: int) -> str:
    texts = [*_models_of(part), _outcome_text(part)]
    if part.row is not None and part.row.attempts > 1:
        texts.insert(0, count_text(part.row.attempts, "attempt"))
    if part.usage is not None:
        if not (part.usage.requests or part.usage.tokens):
            texts.append("cached")
        texts.append(usage_text(part.usage.counts, part.usage.cost_nano))
    if part.row is not None and part.row.generation < generation:
        texts.append(f"generation {part.row.generation}")
    return " · ".join(filter(None, texts))


def _models_of(part: TracePart) -> list[str]:
    """Return the roles and the models of a step."""
    names = [name for call in part.calls for name in (call.role, call.model) if name]
    return [visible(name, _NAME_CHARS) for name in dict.fromkeys(names)]


def _outcome_text(part: TracePart) -> str:
    if part.row is not None and part.calls and part.calls[-1].response is not None and part.row.error is None:
        return ""  # it is what the model answered
    if part.row is not None and part.row.error is not None and part.calls and part.calls[-1].error is not None:
        return "failed"  # the call says why
    if part.row is not None and part.row.error is not None:
        return f"failed: {visible(error_message(part.row.error), _TEXT_CHARS)}"
    if part.row is not None:
        return body_text(part.row.output, _TEXT_CHARS)
    if part.is_batch:
        return batch_view(part).summary()
    if part.rounds:
        return count_text(len(part.rounds), "round")
    if part.step_count:
        return ""
    return "unfinished"


def _counts_text(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[status]:,} {status}" for status in _STATUSES if counts[status])


def trace_record(trace: TracePart) -> list[dict[str, Any]]:
    """Return everything below a part of a trace as data, folded as in the drawing; docs/cli.md describes the fields."""
    return [_part_record(child) for child in fold(trace).children]


def _part_record(folded: FoldedPart) -> dict[str, Any]:
    part, row = folded.part, folded.part.row
    record: dict[str, Any] = {
        "path": part.path,
        "kind": part.kind,
        "status": part.status,
        "began_s": round(part.began_s, 6),
        "duration_s": round(part.ended_s - part.began_s, 6),
        "steps": part.step_count,
        "attempts": None,
        "usage": None,
        "error": None,
        "items": None,
        "children": [_part_record(child) for child in folded.children],
        "hidden": None,
    }
    if row is not None:
        record |= {"attempts": row.attempts, "error": read_body(row.error)}
    if part.usage is not None:
        record["usage"] = part.usage.to_json()
    if part.is_batch:
        record["items"] = _items_record(part)
    if folded.hidden:
        record["hidden"] = {"count": folded.hidden.total(), **_by_status(folded.hidden)}
    return record


def _items_record(part: TracePart) -> dict[str, int]:
    note = part.batch
    if note is None:
        return {"count": part.item_count, **_by_status(part.counts), "cancelled": 0}
    return {
        "count": note.count,
        "succeeded": note.succeeded,
        "failed": note.failed,
        "unfinished": 0,
        "cancelled": note.cancelled,
    }


def _by_status(counts: Mapping[str, int]) -> dict[str, int]:
    return {status: counts[status] for status in _STATUSES}


def step_lines(part: TracePart, generation: int = 1) -> list[str]:
    """Show one step in full, or what is below a part that is not a step."""
    row = part.row
    if row is None:
        lines = [f"{part.path}: {_outcome_text(part)}", *conversation_lines(part.calls, is_full=True)]
        return lines + trace_lines(part, generation)
    head = [
        f"step {part.path}",
        *_models_of(part),
        part.status,
        count_text(row.attempts, "attempt"),
        duration_text(row.duration_s),
    ]
    head.append(f"began at +{duration_text(row.began_s)}")
    if part.usage is not None:
        head.append(usage_text(part.usage.counts, part.usage.cost_nano))
    if row.generation > 1:
        head.append(f"generation {row.generation}")
    lines = [" · ".join(filter(None, head))]
    lines += [f"attempt {attempt.attempt} failed: {error_message(attempt.error)}" for attempt in part.failed_attempts]
    if part.calls:
        lines += ["conversation:", *(f"  {line}" for line in conversation_lines(part.calls, is_full=True))]
    lines += _output_lines(row) if row.error is None else _error_lines(row)
    if part.below:
        lines += ["steps inside:", *(f"  {line}" for line in trace_lines(part, generation))]
    return lines


def _output_lines(row: StepRow) -> list[str]:
    output, action = read_output(row)
    lines = ["output:", *json.dumps(output, ensure_ascii=False, indent=2).splitlines()]
    if action in (None, "default"):
        return lines
    return [f"action: {action}", *lines]


def _error_lines(row: StepRow) -> list[str]:
    lines = [f"error: {error_message(row.error)}"]
    error = read_body(row.error)
    if isinstance(error, dict):
        lines += [f"  {line}" for line in traceback_lines(error.get("traceback", ""))]
        if answer := error.get("answer", ""):
            lines += ["answer:", *(f"  {line}" for line in answer.split("\n"))]
    return lines


def step_record(row: StepRow, *, is_full: bool = False) -> dict[str, Any]:
    """Return one step as data; a long output is only its beginning, as text, unless ``is_full``."""
    is_cut = not is_full and row.output is not None and len(row.output) > MOST_BYTES
    if is_cut:
        output, action = body_text(row.output, MOST_BYTES), None
    else:
        output, action = read_output(row)
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


def part_record(part: TracePart) -> dict[str, Any]:
    """Return one part of a trace as data: the step in full if it is one, its failed attempts, and what is below."""
    return {
        "path": part.path,
        "status": part.status,
        "step": None if part.row is None else step_record(part.row, is_full=True),
        "attempts": attempt_records(part.failed_attempts),
        "calls": [call_record(call) for call in part.calls],
        "trace": trace_record(part),
    }


def attempt_records(rows: Sequence[AttemptRow]) -> list[dict[str, Any]]:
    """Return attempts as data."""
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
    if usage is None:
        return None
    return usage.to_json()
