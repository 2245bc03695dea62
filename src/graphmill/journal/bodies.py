"""Outputs and failures as the bytes that are stored, and back; nothing that is read is revived into a type of a user's."""

from __future__ import annotations

import json
from typing import Any

from graphmill.core.json_text import json_of, to_json
from graphmill.core.result import Failure, Kind


def with_body(output: Any) -> tuple[Any, bytes]:
    """Give an output and its body; what JSON can not hold is a permanent failure of its job."""
    return output, json_of(output).encode()


def failure_body(failure: Failure) -> bytes:
    """Give the body of a failure."""
    found = {"kind": failure.kind, "message": failure.message, "type": failure.type, "traceback": failure.traceback}
    if failure.retry_after_s is not None:
        found["retry_after_s"] = failure.retry_after_s  # type: ignore[assignment]
    return to_json(found).encode()


def failure_from(body: bytes) -> Failure:
    """Read a failure."""
    found = json.loads(body)
    return Failure(
        kind=Kind(found["kind"]),
        message=found["message"],
        type=found["type"],
        traceback=found["traceback"],
        retry_after_s=found.get("retry_after_s"),
    )
