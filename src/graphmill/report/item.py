"""One item in full: its results by generation, its failed attempts, its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphmill.core.json import to_json
from graphmill.core.result import Result
from graphmill.datasets.row import row_of
from graphmill.journal.answers import is_answered
from graphmill.journal.records import AttemptRow, Entry, History, RunRecord, StepRow, SuspectRow
from graphmill.report.batch_text import batch_lines, batches_of
from graphmill.report.run_view import instant, run_name
from graphmill.report.text import (
    columns,
    failure_text,
    moment,
    seconds,
    shown,
    shown_message,
    standing,
    tries,
    usage_text,
)
from graphmill.report.trace import Branch, read_body, trace_of
from graphmill.report.trace_page import attempt_records, step_record, trace_lines, trace_record

_VALUE_CHARS = 2000
_ID_CHARS = 80
_SHORT_CHARS = 80
_LINE_CHARS = 200


def item_lines(run: RunRecord, item_id: str, history: History) -> list[str]:
    """Show an item: how it stands, what went in and came out, and how it got there."""
    lines = [f"item {shown(item_id, _ID_CHARS)} of run {run_name(run)} · {_standing(history)}"]
    lines += _notes(history)
    if history.entries:
        lines += _result_lines(current(history).result)
    lines += _section("attempts that failed", [_attempt_row(row) for row in _failed(history)])
    lines += _section("answers", [_answer_row(row) for row in history.steps if row.is_answer])
    trace = trace_of(history.steps, history.attempts)
    lines += _batch_section(history, trace)
    lines += _titled("steps", trace_lines(trace, _newest(history)))
    return lines + (
        _section("generations", [_generation_row(entry) for entry in history.entries])
        if len(history.entries) > 1
        else []
    )


def current(history: History) -> Entry:
    """Tell which of an item's results counts."""
    return max(history.entries, key=lambda entry: entry.generation)


def _failed(history: History) -> list[AttemptRow]:
    """List the attempts that failed; one that was only begun as long as no result and no step tells how it ended."""
    ended = {entry.generation for entry in history.entries}
    steps = {(row.generation, row.path) for row in history.steps}
    untold = [row for row in history.attempts if row.kind is not None or (row.generation, row.path) not in steps]
    return [row for row in untold if (row.kind is not None and not row.path) or row.generation not in ended]


def _newest(history: History) -> int:
    return max([1, *(row.generation for row in history.steps), *(entry.generation for entry in history.entries)])


def _standing(history: History) -> str:
    if not history.entries:
        return "no result yet"
    entry = current(history)
    result = entry.result
    used = usage_text(result.usage, result.cost)
    took = f"{seconds(result.duration_s)}, {seconds(result.queued_s)} queued"
    return " · ".join(
        filter(
            None, (f"{standing(result)} after {tries(result.attempts)}", took, *_models(result), used, moment(entry.at))
        )
    )


def _models(result: Result) -> list[str]:
    """Tell which models have answered: after ``--model`` those of one run differ."""
    named = result.metadata.get("model") or []
    return [shown(str(model), _ID_CHARS) for model in (named if isinstance(named, list) else [named])]


def _notes(history: History) -> Iterator[str]:
    if history.entries and current(history).is_orphaned:
        yield "  orphaned: it is no longer in the source"
    if history.entries and is_answered(history.steps, current(history).generation):
        yield "  answered, and to be gone on with"
    if history.wanted > max((entry.generation for entry in history.entries), default=0):
        yield f"  to be done again, in generation {history.wanted}"
    if history.suspect is not None and history.suspect.crashes:
        yield _suspicion(history.suspect)


def _suspicion(suspect: SuspectRow) -> str:
    alone = f", {suspect.alone} of them with nothing else" if suspect.alone else ""
    times = "once" if suspect.crashes == 1 else f"{suspect.crashes} times"
    return f"  was under way {times} when the whole process died{alone}"


def _result_lines(result: Result) -> Iterator[str]:
    yield f"input:  {_value(result.input)}"
    yield f"output: {_value(result.output)}"
    if result.error is not None:
        yield f"error:  {result.error.kind}: {shown_message(failure_text(result.error), _LINE_CHARS)}"
        yield from (
            f"  {shown_message(line, _LINE_CHARS)}" for line in result.error.traceback.split("\n") if line.strip()
        )
        if result.error.answer:
            yield f"answer: {shown(result.error.answer, _VALUE_CHARS)}"


def _value(value: Any) -> str:
    return shown(to_json(value), _VALUE_CHARS)


def _section(title: str, rows: list[tuple[str, ...]]) -> list[str]:
    return _titled(title, columns(rows)) if rows else []


def _titled(title: str, lines: list[str]) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in lines)] if lines else []


def _batch_section(history: History, trace: Branch) -> list[str]:
    output = current(history).result.output if history.entries else None
    return _titled("batches", [line for view in batches_of(trace, output) if view.failed for line in batch_lines(view)])


def _attempt_row(row: AttemptRow) -> tuple[str, ...]:
    message = "began; nothing is known of its end" if row.kind is None else _message(row.error)
    return (
        f"generation {row.generation}",
        f"attempt {row.attempt}",
        shown(row.path, _ID_CHARS),
        str(row.kind or ""),
        message,
    )


def _answer_row(row: StepRow) -> tuple[str, ...]:
    said = read_body(row.output)
    return (
        shown(row.path, _ID_CHARS),
        shown(to_json(said["question"]), _SHORT_CHARS),
        shown(to_json(said["answer"]), _SHORT_CHARS),
    )


def _answer_record(row: StepRow) -> dict[str, Any]:
    return {"path": row.path, "generation": row.generation, **read_body(row.output)}


def _generation_row(entry: Entry) -> tuple[str, ...]:
    result = entry.result
    return f"generation {entry.generation}", str(result.status), moment(entry.at), _value_in_short(result)


def _value_in_short(result: Result) -> str:
    return shown(to_json(result.output) if result.error is None else failure_text(result.error), _SHORT_CHARS)


def _message(body: bytes | None) -> str:
    error = read_body(body)
    message = error.get("message") if isinstance(error, dict) else error
    return shown_message(message if isinstance(message, str) else to_json(message), _SHORT_CHARS)


def item_record(run: RunRecord, item_id: str, history: History) -> dict[str, Any]:
    """Give everything about an item as data."""
    return {
        "run": run.id,
        "id": item_id,
        "status": current(history).result.status if history.entries else None,
        "wanted_generation": history.wanted,
        "crashes": 0 if history.suspect is None else history.suspect.crashes,
        "crashes_alone": 0 if history.suspect is None else history.suspect.alone,
        "results": [_entry_record(entry) for entry in history.entries],
        "attempts": attempt_records(history.attempts),
        "answers": [_answer_record(row) for row in history.steps if row.is_answer],
        "steps": [step_record(row) for row in history.steps if not row.is_note],
        "trace": trace_record(trace_of(history.steps, history.attempts)),
    }


def _entry_record(entry: Entry) -> dict[str, Any]:
    place = {"generation": entry.generation, "at": instant(entry.at), "is_orphaned": entry.is_orphaned}
    return row_of(entry.result) | {"position": entry.result.position} | place
