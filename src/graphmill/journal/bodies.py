"""Outputs and failures as the bytes that are stored, and back; nothing that is read is revived into a type of a user's."""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any

import msgspec

from graphmill.core.errors import Permanent
from graphmill.core.json import json_bytes, json_of
from graphmill.core.result import Failure, Kind
from graphmill.core.usage import Usage
from graphmill.journal.records import Spent

MOST_LEVELS = 500
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def with_body(output: Any) -> tuple[Any, bytes]:
    """Give an output and its body; what JSON can not hold, or nobody could read again, is a permanent failure of its job."""
    body = json_of(output)
    if len(body) > MOST_LEVELS and body.count(b"[") + body.count(b"{") > MOST_LEVELS and _levels(body) > MOST_LEVELS:
        raise Permanent(f"the output is nested deeper than {MOST_LEVELS} levels")
    return output, body


def _levels(body: bytes) -> int:
    brackets = _TEXT.sub(b"", body).translate(None, delete=_NO_BRACKETS)
    return max(accumulate(1 if bracket in b"[{" else -1 for bracket in brackets), default=0)


def failure_body(failure: Failure) -> bytes:
    """Give the body of a failure."""
    found = {"kind": failure.kind, "message": failure.message, "type": failure.type, "traceback": failure.traceback}
    if failure.retry_after_s is not None:
        found["retry_after_s"] = failure.retry_after_s  # type: ignore[assignment]
    if failure.answer:
        found["answer"] = failure.answer
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
    )


def usage_body(usage: Usage | None) -> bytes | None:
    """Give the body of a usage, without counts of nought; None for none."""
    return None if usage is None else msgspec.json.encode(usage)


def spent_body(spent: Spent | None) -> bytes | None:
    """Give the body of what was spent; None for nothing."""
    return json_bytes(msgspec.to_builtins(spent)) if spent else None


def spent_from(body: bytes | None) -> Spent:
    """Read what was spent."""
    return {} if body is None else {model: Usage.from_json(usage) for model, usage in json.loads(body).items()}


def usage_from(body: bytes | None) -> Usage | None:
    """Read a usage."""
    return None if body is None else Usage.from_json(json.loads(body))
