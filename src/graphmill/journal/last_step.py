"""The last step of a job, in the row of the result that it led to: a job of one step leaves one row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from orjson import Fragment

from graphmill.core.json import json_bytes
from graphmill.core.result import Result
from graphmill.core.usage import Usage
from graphmill.engine.recorder import LastStep
from graphmill.journal.bodies import failure_body, usage_body
from graphmill.journal.records import ResultRow, StepRow


def more_body(result: Result, last: LastStep | None = None) -> bytes | None:
    """Give the body of what is noted beside an outcome; None for nothing."""
    told = b""
    if result.usage is not None or result.metadata:
        told = json_bytes({"usage": result.usage, "cost": result.cost, "metadata": dict(result.metadata)})
    if last is None:
        return told or None
    return b'%b"step":%b}' % (told[:-1] + b"," if told else b"{", json_bytes(_step(last, result)))


def _step(last: LastStep, result: Result) -> dict[str, Any]:
    """Give a step, with the bodies as they are; a failure that is the result's own is there already."""
    path, content, outcome = last
    # Beside a Fragment stands only what orjson takes: what is odd, such as half of a surrogate pair, is written before.
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
    """Tell whether a step has used what its whole job has, so that this need not be told twice."""
    return result.usage is None if usage is None else usage.counts == result.usage and usage.cost_usd == result.cost


def last_step_of(row: ResultRow) -> StepRow | None:
    """Read the step back; None for a job that has none. KeyError, TypeError or ValueError for what we do not write."""
    more = {} if row.more is None else json.loads(row.more)
    step = more.get("step")
    if step is None:
        return None
    attempts, duration_s, began_s = step["times"]
    output = json_bytes(step["output"]) if "output" in step else None
    error = json_bytes(step["error"]) if "error" in step else row.error if output is None else None
    used = (
        step.get("usage") if "usage" in step or not more.get("usage") else {**more["usage"], "cost_usd": more["cost"]}
    )
    usage = None if used is None else json_bytes(used)
    content = bytes.fromhex(step["content"])
    return StepRow(
        row.key, row.generation, step["path"], content, attempts, duration_s, output, error, usage, began_s, row.spent
    )


def in_order(steps: Sequence[StepRow], last: Iterable[StepRow]) -> list[StepRow]:
    """Give all steps of an item by generation, and then as they were recorded: what a result holds was the last."""
    return sorted([*steps, *last], key=lambda step: step.generation)
