"""Outputs, failures, usage and steps as stored JSON, and back; nothing read becomes a user's type."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import msgspec
from orjson import Fragment

from graphmill.core.errors import Permanent
from graphmill.core.json import json_bytes, json_of
from graphmill.core.result import Failure, Kind, Result
from graphmill.core.usage import NO_USAGE, Usage
from graphmill.engine.results.recorder import LastStep
from graphmill.journal.records import Entry, ResultRow, Spent, StepRow

MOST_LEVELS = 500
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def with_body(output: Any) -> tuple[Any, bytes]:
    """Return an output and its body; what JSON cannot hold or nobody could read is a Permanent error."""
    body = json_of(output)
    if len(body) > MOST_LEVELS and body.count(b"[") + body.count(b"{") > MOST_LEVELS and _levels(body) > MOST_LEVELS:
        raise Permanent(f"the output is nested deeper than {MOST_LEVELS} levels")
    return output, body


def _levels(body: bytes) -> int:
    brackets = _TEXT.sub(b"", body).translate(None, delete=_NO_BRACKETS)
    return max(accumulate(1 if bracket in b"[{" else -1 for bracket in brackets), default=0)


def failure_body(failure: Failure) -> bytes:
    """Return the body of a failure."""
    found = {"kind": failure.kind, "message": failure.message, "type": failure.type, "traceback": failure.traceback}
    if failure.retry_after_s is not None:
        found["retry_after_s"] = failure.retry_after_s  # type: ignore[assignment]
    if failure.answer:
        found["answer"] = failure.answer
    if failure.cause:
        found["cause"] = failure.cause
    return json_bytes(found)


def failure_from(body: bytes) -> Failure:
    """Read a failure."""
    found = json.loads(body)
    return Failure(
        kind=Kind(found["kind"]),
        message=found["message"],
        type=found["type"],
        traceback=found.get("traceback", ""),
        retry_after_s=found.get("retry_after_s"),
        answer=found.get("answer", ""),
        cause=found.get("cause", ""),
    )


def usage_body(usage: Usage | None) -> bytes | None:
    """Return the body of a usage, without counts of nought; None for none."""
    return None if usage is None else msgspec.json.encode(usage)


def spent_body(spent: Spent | None) -> bytes | None:
    """Return the body of what was spent; None for nothing."""
    return json_bytes(msgspec.to_builtins(spent)) if spent else None


def spent_from(body: bytes | None) -> Spent:
    """Read what was spent."""
    if body is None:
        return {}
    return {model: _read_usage(usage) for model, usage in json.loads(body).items()}


def usage_from(body: bytes | None) -> Usage | None:
    """Read a usage."""
    if body is None:
        return None
    return _read_usage(json.loads(body))


def _read_usage(found: Any) -> Usage:
    return msgspec.convert(found, Usage)


def kept_usage(usage: bytes | None, spent: Spent | None) -> bytes | None:
    """Return the body of a step's usage as it is stored: None where it is all that the step's row says was spent."""
    if not spent:
        return usage
    if usage is None:
        return b"null"
    return None if usage == usage_body(_sum(spent)) else usage


def read_usage(kept: bytes | None, spent: Spent | None) -> bytes | None:
    """Return the body of a step's usage from what is stored."""
    if kept is None and spent:
        return usage_body(_sum(spent))
    return None if kept == b"null" else kept


def _sum(spent: Spent) -> Usage:
    usages = list(spent.values())
    return usages[0] if len(usages) == 1 else sum(usages, NO_USAGE)


def more_body(result: Result, last: LastStep | None = None, spent: Spent | None = None) -> bytes | None:
    """Return the body of what is noted beside an outcome; None for nothing. Usage that is all that was spent is not."""
    noted: dict[str, Any] = {}
    if (result.usage is not None or spent) and not (spent and _is_all(_sum(spent), result)):
        noted = {"usage": result.usage, "cost_nano": result.cost_nano}
    if result.metadata:
        noted["metadata"] = dict(result.metadata)
    body = json_bytes(noted) if noted else b""
    if last is None:
        return body or None
    return b'%b"step":%b}' % (body[:-1] + b"," if body else b"{", json_bytes(_step(last, result)))


def _step(last: LastStep, result: Result) -> dict[str, Any]:
    """Return a step, with the bodies as they are; a failure that is the result's own is there already."""
    path, content, outcome = last
    # orjson encodes what is beside a Fragment; text it refuses, such as half of a surrogate pair, is encoded before.
    step = {
        "path": _path(path),
        "content": content.hex(),
        "times": (outcome.attempts, outcome.duration_s, outcome.began_s),
    }
    if outcome.body is not None:
        step["output"] = Fragment(outcome.body)
    if outcome.failure is not None and outcome.failure is not result.error:
        step["error"] = Fragment(failure_body(outcome.failure))
    if not _is_all(outcome.usage, result):
        step["usage"] = Fragment(usage_body(outcome.usage) or b"null")
    return step


@lru_cache  # the same few for every item
def _path(path: str) -> Fragment:
    return Fragment(json_bytes(path))


def _is_all(usage: Usage | None, result: Result) -> bool:
    """Whether a step has used what its whole job has, so that one of them is enough."""
    if usage is None:
        return result.usage is None
    return usage.counts == result.usage and usage.cost_nano == result.cost_nano


def last_step_of(row: ResultRow) -> StepRow | None:
    """Read the step back; None for a job that has none. KeyError, TypeError or ValueError for what we do not write."""
    more = _value(row.more) or {}
    step = more.get("step")
    if step is None:
        return None
    attempts, duration_s, began_s = step["times"]
    output = json_bytes(step["output"]) if "output" in step else None
    error = None
    if "error" in step:
        error = json_bytes(step["error"])
    elif output is None:  # it is the result's own
        error = row.error
    used = step.get("usage")
    if "usage" not in step:  # all that the job has used
        counts, cost_nano = _usage_of(more, row.spent)
        used = counts and {**counts, "cost_nano": cost_nano}
    usage = None if not used else json_bytes(used)
    content = bytes.fromhex(step["content"])
    return StepRow(
        row.key, row.generation, step["path"], content, attempts, duration_s, output, error, usage, began_s, row.spent
    )


def in_order(steps: Sequence[StepRow], last: Iterable[StepRow]) -> list[StepRow]:
    """Return all steps of an item by generation, and then as they were recorded: what a result holds was the last."""
    return sorted([*steps, *last], key=lambda step: step.generation)


def to_entry(row: ResultRow, *, at: float, is_orphaned: bool, is_outdated: bool) -> Entry:
    """Return a recorded row as a result; ValueError, KeyError or TypeError for bodies that are not what we write."""
    more = _value(row.more) or {}
    counts, cost_nano = _usage_of(more, row.spent)
    metadata: dict[str, Any] = more.get("metadata", {})
    if row.generation > 1:
        metadata["generation"] = row.generation
    if row.input is None:
        metadata["input_left_out"] = "it was not plain data"
    if is_orphaned:
        metadata["orphaned"] = True
    elif is_outdated:
        metadata["outdated"] = True
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
        usage=counts,
        cost_nano=cost_nano,
        metadata=metadata,
    )
    return Entry(row.key, row.generation, at, is_orphaned, result)


def _usage_of(more: Mapping[str, Any], spent: Spent | None) -> tuple[Mapping[str, int] | None, int | None]:
    """Return the usage and the cost of a result: as noted or, if they are not, all that was spent."""
    if "usage" in more or not spent:
        return more.get("usage"), more.get("cost_nano")
    total = _sum(spent)
    return total.counts, total.cost_nano


def _value(body: bytes | None) -> Any:
    return None if body is None else json.loads(body)
