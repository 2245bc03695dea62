"""One item in full: its results by generation, its failed attempts, its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphmill.core.job import row_number
from graphmill.core.json import text_or_json, to_json
from graphmill.core.result import Result
from graphmill.datasets.row import row_of
from graphmill.journal.records import RECORD_PROMPTS, AttemptRow, Entry, ItemHistory, RunRecord, StepRow, SuspectRow
from graphmill.journal.resume import is_answered
from graphmill.journal.store import Archive
from graphmill.report.item.batches import batch_lines, batches_of
from graphmill.report.item.conversation import call_record
from graphmill.report.item.steps import steps_of_item
from graphmill.report.item.trace import TracePart, read_body, trace_of
from graphmill.report.item.trace_page import attempt_records, step_record, trace_lines, trace_record
from graphmill.report.run_view import run_name
from graphmill.report.scores import StoredScores, item_score_lines
from graphmill.report.text import (
    align_columns,
    count_text,
    duration_text,
    failure_text,
    iso_time,
    local_time,
    one_line,
    one_line_message,
    status_text,
    traceback_lines,
)
from graphmill.report.usage import usage_text
from graphmill.scoring.score import Score

_VALUE_CHARS = 2000
_WHOLE = 1_000_000_000
_ID_CHARS = 80
_SHORT_CHARS = 80
_LINE_CHARS = 200
_NO_SCORES: Mapping[str, Score] = {}


def item_trace(run: RunRecord, item_id: str, history: ItemHistory) -> TracePart:
    """Return the steps of an item as a tree, with what they said to models."""
    return trace_of(history.steps, history.attempts, steps_of_item(run.id, item_id, history))


def item_scores(archive: Archive, run: RunRecord, history: ItemHistory) -> Mapping[str, Score]:
    """Return the scores of an item by scorer."""
    current = _current(history)
    return {} if current is None else StoredScores(archive, run).of(current)


def item_lines(
    run: RunRecord,
    item_id: str,
    history: ItemHistory,
    scores: Mapping[str, Score] = _NO_SCORES,
    *,
    is_full: bool = False,
) -> list[str]:
    """Show an item: its status, input and output, and how it got there; nothing is shortened if ``is_full``."""
    trace = item_trace(run, item_id, history)
    current = _current(history)
    lines = [
        f"item {one_line(item_id, _ID_CHARS)} of run {run_name(run)} · {_status(current)}",
        *_notes(history, current),
    ]
    if run.options.get(RECORD_PROMPTS) is False and not history.calls and history.steps:
        lines.append("  its run does not record prompts (record_prompts: false)")
    if current is not None:
        lines += _result_lines(current.result, _WHOLE if is_full else _VALUE_CHARS)
    lines += _section("scores", item_score_lines(scores))
    lines += _table("attempts that failed", [_attempt_row(row) for row in _failed_attempts(history)])
    lines += _table("answers", [_answer_row(row) for row in history.steps if row.is_answer])
    lines += _section("batches", _batch_lines(trace, None if current is None else current.result.output))
    lines += _section("steps", trace_lines(trace, _newest_generation(history), is_full=is_full))
    if len(history.entries) > 1:
        lines += _table("generations", [_generation_row(entry) for entry in history.entries])
    return lines


def _current(history: ItemHistory) -> Entry | None:
    """Return the result that counts: that of the highest generation."""
    return max(history.entries, key=lambda entry: entry.generation, default=None)


def _newest_generation(history: ItemHistory) -> int:
    return max([1, *(row.generation for row in history.steps), *(entry.generation for entry in history.entries)])


def _status(current: Entry | None) -> str:
    if current is None:
        return "no result yet"
    result = current.result
    parts = [
        f"row {row_number(result.position):,}",
        f"{status_text(result)} after {count_text(result.attempts, 'attempt')}",
        f"{duration_text(result.duration_s)}, {duration_text(result.queued_s)} queued",
        *_models(result),
        usage_text(result.usage, result.cost_nano),
        local_time(current.at),
    ]
    return " · ".join(filter(None, parts))


def _models(result: Result) -> list[str]:
    """Return the models that answered; after ``--model`` they differ between items of one run."""
    models = result.metadata.get("model") or []
    if not isinstance(models, list):
        models = [models]
    return [one_line(str(model), _ID_CHARS) for model in models]


def _notes(history: ItemHistory, current: Entry | None) -> Iterator[str]:
    generation = 0 if current is None else current.generation
    if current is not None and current.is_orphaned:
        yield "  orphaned: no longer in the source"
    if current is not None and current.result.metadata.get("outdated"):
        yield "  outdated: from before a change; resume redoes it"
    if current is not None and is_answered(history.steps, generation):
        yield "  answered; resume continues it"
    if history.wanted > generation:
        yield f"  will run again, in generation {history.wanted}"
    if history.suspect is not None and history.suspect.crashes:
        yield _crashes_text(history.suspect)


def _crashes_text(suspect: SuspectRow) -> str:
    times = "once" if suspect.crashes == 1 else f"{suspect.crashes} times"
    text = f"  was running {times} when the process died"
    if suspect.alone:
        return f"{text}, {suspect.alone} of them as the only item"
    return text


def _result_lines(result: Result, chars: int) -> Iterator[str]:
    yield f"input:  {one_line(to_json(result.input), chars)}"
    yield f"output: {one_line(to_json(result.output), chars)}"
    if result.error is not None:
        yield f"error:  {result.error.kind}: {one_line_message(failure_text(result.error), _LINE_CHARS)}"
        trail = traceback_lines(result.error.traceback)
        yield from (f"  {one_line_message(line, _LINE_CHARS)}" for line in trail)
        if result.error.answer:
            yield f"answer: {one_line(result.error.answer, chars)}"


def _section(title: str, lines: list[str]) -> list[str]:
    if lines:
        return [f"{title}:", *(f"  {line}" for line in lines)]
    return []


def _table(title: str, rows: list[tuple[str, ...]]) -> list[str]:
    return _section(title, align_columns(rows))


def _failed_attempts(history: ItemHistory) -> list[AttemptRow]:
    """List the job's own failed attempts, and any that began in a generation without a result and never ended."""
    finished = {entry.generation for entry in history.entries}
    steps = {(row.generation, row.path) for row in history.steps}
    found = []
    for row in history.attempts:
        is_failed_job = row.kind is not None and not row.path
        is_open = row.kind is not None or (row.generation, row.path) not in steps
        if is_failed_job or (is_open and row.generation not in finished):
            found.append(row)
    return found


def _attempt_row(row: AttemptRow) -> tuple[str, ...]:
    message = "began; its end is not recorded" if row.kind is None else _message(row.error)
    place = one_line(row.path, _ID_CHARS)
    return f"generation {row.generation}", f"attempt {row.attempt}", place, str(row.kind or ""), message


def _message(body: bytes | None) -> str:
    message = read_body(body)
    if isinstance(message, dict):
        message = message.get("message")
    return one_line_message(text_or_json(message), _SHORT_CHARS)


def _answer_row(row: StepRow) -> tuple[str, ...]:
    said = read_body(row.output)
    question, answer = to_json(said["question"]), to_json(said["answer"])
    return one_line(row.path, _ID_CHARS), one_line(question, _SHORT_CHARS), one_line(answer, _SHORT_CHARS)


def _batch_lines(trace: TracePart, output: Any) -> list[str]:
    return [line for view in batches_of(trace, output) if view.failed for line in batch_lines(view)]


def _generation_row(entry: Entry) -> tuple[str, ...]:
    result = entry.result
    text = to_json(result.output) if result.error is None else failure_text(result.error)
    return f"generation {entry.generation}", str(result.status), local_time(entry.at), one_line(text, _SHORT_CHARS)


def item_record(
    run: RunRecord, item_id: str, history: ItemHistory, scores: Mapping[str, Score] = _NO_SCORES
) -> dict[str, Any]:
    """Return everything about an item as data."""
    current, suspect = _current(history), history.suspect or SuspectRow(b"", 0, 0)
    steps = steps_of_item(run.id, item_id, history)
    return {
        "run": run.id,
        "id": item_id,
        "row": None if current is None else row_number(current.result.position),
        "status": None if current is None else current.result.status,
        "wanted_generation": history.wanted,
        "crashes": suspect.crashes,
        "crashes_alone": suspect.alone,
        "scores": {name: score.to_json() for name, score in scores.items()},
        "results": [_entry_record(entry) for entry in history.entries],
        "attempts": attempt_records(history.attempts),
        "answers": [_answer_record(row) for row in history.steps if row.is_answer],
        "steps": [step_record(row) for row in history.steps if not row.is_note],
        "calls": [call_record(step) for step in steps if step.model is not None],
        "trace": trace_record(trace_of(history.steps, history.attempts, steps)),
    }


def _answer_record(row: StepRow) -> dict[str, Any]:
    return {"path": row.path, "generation": row.generation, **read_body(row.output)}


def _entry_record(entry: Entry) -> dict[str, Any]:
    more = {
        "position": entry.result.position,
        "generation": entry.generation,
        "at": iso_time(entry.at),
        "is_orphaned": entry.is_orphaned,
    }
    return row_of(entry.result) | more
