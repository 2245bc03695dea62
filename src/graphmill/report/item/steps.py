"""A recorded item as a ``Trace``: its model calls and steps, as values for programs and renderers."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from graphmill.core.job import round_of, row_number
from graphmill.core.result import Trace, TraceStep
from graphmill.core.usage import Usage
from graphmill.journal.bodies import usage_from
from graphmill.journal.records import ItemHistory, RunRecord, StepRow
from graphmill.report.item.trace import read_body, read_output

_PLACE = re.compile(r"(?:@|\[)\d.*")
_CALL = "complete"  # the name of the steps of gm.complete


class _Call(NamedTuple):
    """A recorded model call, parsed."""

    generation: int
    path: str
    body: Mapping[str, Any]


def trace_of_item(run: RunRecord, history: ItemHistory) -> Trace:
    """Return the trace of an item that has a result."""
    entry = max(history.entries, key=lambda entry: entry.generation)
    result = entry.result
    return Trace(
        run_id=run.id,
        item_id=result.item_id,
        row=row_number(result.position),
        sample=result.sample,
        generation=entry.generation,
        status=result.status,
        input=result.input,
        output=result.output,
        error=result.error,
        steps=steps_of_item(run.id, result.job_id, history),
    )


def steps_of_item(run_id: str, job_id: str, history: ItemHistory) -> Sequence[TraceStep]:
    """Return the steps of an item, each path in the newest generation in which it ran, by when they began.

    After a restart the clock of a step that was not finished starts anew: a later attempt never comes before an earlier
    one.
    """
    rows = {row.path: row for row in history.steps if not row.is_note}  # of one path the newest comes last
    calls = _calls_by_path(history)
    paths = dict.fromkeys([*rows, *calls])
    parents = {path[:at] for path in paths for at, char in enumerate(path) if char == "/"}
    timed: list[tuple[float, TraceStep]] = []
    for path in paths:
        found = _newest(rows.get(path), calls.get(path, ()))
        name = f"{run_id}:{job_id}:{path}"
        if found.generation > 1:
            name += f":g{found.generation}"
        timed += _in_order(_steps_of_path(name, found, has_steps_inside=path in parents))
    return tuple(step for _, step in sorted(timed, key=itemgetter(0)))


def _in_order(steps: Iterable[TraceStep]) -> Iterator[tuple[float, TraceStep]]:
    began_s = 0.0
    for step in steps:
        began_s = max(began_s, step.began_s)
        yield began_s, step


class _Newest(NamedTuple):
    """What is recorded of a path in the newest generation: the outcome of its step, if it ended, and its calls."""

    generation: int
    row: StepRow | None
    calls: Sequence[_Call]


def _newest(row: StepRow | None, calls: Sequence[_Call]) -> _Newest:
    generation = max(0 if row is None else row.generation, calls[-1].generation if calls else 0)
    if row is not None and row.generation < generation:
        row = None
    return _Newest(generation, row, [call for call in calls if call.generation == generation])


def _calls_by_path(history: ItemHistory) -> Mapping[str, list[_Call]]:
    found: defaultdict[str, list[_Call]] = defaultdict(list)
    for stored in sorted(history.calls, key=lambda call: call.generation):
        body = json.loads(stored.body)
        found[body["path"]].append(_Call(stored.generation, body["path"], body))
    return found


def _steps_of_path(name: str, found: _Newest, *, has_steps_inside: bool) -> Iterator[TraceStep]:
    if found.row is not None and not found.calls:
        yield _row_step(name, found.row, has_steps_inside=has_steps_inside)
    for number, call in enumerate(found.calls, 1):
        is_last = number == len(found.calls)
        yield _call_step(name if number == 1 else f"{name}:{number}", call, found.row if is_last else None)


def _call_step(name: str, call: _Call, row: StepRow | None) -> TraceStep:
    """Return a call as a step; ``row`` is the outcome of its step if this is the last call of it."""
    body, response = call.body, call.body.get("response")
    usage = None
    if response is not None and response.get("usage"):
        usage = msgspec.convert(response["usage"], Usage)
    error = body.get("error")
    if error is None and row is not None:
        error = read_body(row.error)
    return TraceStep(
        id=name,
        path=call.path,
        node=node_of(call.path),
        generation=call.generation,
        attempt=body["attempt"],
        began_s=body["began_s"],
        duration_s=body["duration_s"],
        role=body.get("role"),
        round=round_of(call.path),
        model=body.get("model"),
        request=body.get("request"),
        response=response,
        output=None if row is None else read_output(row)[0],
        problem=body.get("problem"),
        error=error,
        cached=bool(body.get("cached")),
        usage=usage,
        cost_nano=None if usage is None else usage.cost_nano,
    )


def _row_step(name: str, row: StepRow, *, has_steps_inside: bool) -> TraceStep:
    usage = None if has_steps_inside else usage_from(row.usage)
    return TraceStep(
        id=name,
        path=row.path,
        node=node_of(row.path),
        generation=row.generation,
        attempt=row.attempts,
        began_s=row.began_s,
        duration_s=row.duration_s,
        round=round_of(row.path),
        output=read_output(row)[0],
        error=read_body(row.error),
        usage=usage,
        cost_nano=None if usage is None else usage.cost_nano,
    )


def node_of(path: str) -> str:
    """Return the id of a step's node: the innermost one of a workflow or, in a function, the name of its step."""
    parts = [_PLACE.sub("", part) for part in path.split("/")]
    nodes = [part for part in parts if "#" not in part]
    if nodes:
        return nodes[-1]
    names = [part.partition("#")[0] for part in parts]
    return next((name for name in reversed(names) if name != _CALL), _CALL)
