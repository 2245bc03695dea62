"""How long it takes to read the traces of a run, and whether an item of a large run takes longer than one of a small."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import graphmill as gm
from benchmarks.durable import fresh_folder
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require
from benchmarks.trial import trial
from graphmill.core.json import canonical, digest, item_key
from graphmill.core.result import Status
from graphmill.journal.records import FINISHED, CallRow, ResultRow, RunRow, StepRow
from graphmill.journal.store import open_store

_FEW, _MANY = 5000, 50_000
_STEPS = 5
_ITEMS_IN_A_COMMIT = 100
_WORDS = "The tea was warm, the room was quiet, and nobody asked for more than there was. "
_REPETITIONS = 3


def write_run(folder: str, items: int) -> float:
    """Record a run of items that made five model calls each, as the owner of a run does."""
    store = open_store(Path(folder, "runs.db"))
    with closing(store):
        store.create("benchmark", {"graph": {"name": "five"}})
        ledger = store.take("benchmark")
        for first in range(0, items, _ITEMS_IN_A_COMMIT):
            ledger.append([row for number in range(first, first + _ITEMS_IN_A_COMMIT) for row in _rows(number)])
        ledger.append([RunRow(status=FINISHED, total=items, is_read=True)])
        ledger.release()
    return 0.0


def _rows(number: int) -> Iterator[Any]:
    name = f"item-{number}"
    key, body = item_key(name), canonical({"id": name, "text": f"{_WORDS * 3}{number}"})
    for step in range(_STEPS):
        path = f"debate@{step + 1}/solve"
        output = canonical([{"response": f"{_WORDS}{number}.{step}"}, "default", []])
        yield CallRow(key, 1, path, lambda path=path, step=step: _call(path, number, step))
        yield StepRow(key, 1, path, digest(path.encode()), 1, 0.5, output, None, None, float(step))
    yield ResultRow(
        key=key,
        generation=1,
        item_id=name,
        position=number,
        content=digest(body),
        status=Status.SUCCEEDED,
        kind=None,
        attempts=1,
        queued_s=0.0,
        duration_s=5.0,
        input=body,
        output=canonical({"answer": number}),
        error=None,
    )


def _call(path: str, number: int, step: int) -> bytes:
    messages = [
        {"role": "system", "content": _WORDS * 5},
        {"role": "user", "content": f"Problem {number}, {step}: {_WORDS * 4}"},
    ]
    answer = {"text": f"{_WORDS * 2}{number}.{step}", "finish_reason": "stop", "usage": {"requests": 1}}
    call = {"path": path, "attempt": 1, "model": "own/m", "role": "solver", "began_s": float(step), "duration_s": 0.5}
    return canonical({"request": {"messages": messages}, "response": answer, **call})


def read_traces(folder: str, items: int) -> float:
    """Tell the seconds that it takes to read all traces, from the opening of the journal."""
    began = time.perf_counter()
    count = steps = 0
    for trace in gm.open_run("benchmark", Path(folder, "runs.db")).traces():
        count += 1
        steps += len(trace.steps)
    took = time.perf_counter() - began
    require(items, count)
    require(items * _STEPS, steps)
    return took


def _times(items: int) -> list[float]:
    with fresh_folder() as folder:
        trial(write_run, folder=str(folder), items=items)
        return [trial(read_traces, folder=str(folder), items=items) for _ in range(_REPETITIONS)]


def _measure_time() -> Reading:
    times = _times(_FEW)
    return middle(times, f"{min(times) / _FEW * 1e6:.0f} µs an item")


def _measure_growth() -> Reading:
    few, many = min(_times(_FEW)) / _FEW, [each / _MANY for each in _times(_MANY)]
    note = f"{min(many) * 1e6:.0f} µs an item over {few * 1e6:.0f} µs"
    return middle([each / few for each in many], note)


FIGURES = (
    Figure(
        name="traces-time",
        title="time to read the traces of 5,000 items of five model calls each",
        bound="at most",
        target=10,
        form="{:.2f} s",
        measure=_measure_time,
    ),
    Figure(
        name="traces-growth",
        title="time for each item to read the traces of 50,000 items, over that of 5,000",
        bound="at most",
        target=1.3,
        form="{:.2f} ×",
        measure=_measure_growth,
    ),
)
