"""Trajectories: of each item a file with every model call that led to its result."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from graphmill.core.errors import ExportError, UsageError
from graphmill.core.json import json_bytes
from graphmill.core.result import Trace, TraceStep
from graphmill.core.usage import cost_usd

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")
_NAME_CHARS = 80


def trajectory(trace: Trace) -> Iterator[dict[str, Any]]:
    """Yield a record for each model call of an item, in the order in which they began."""
    for step in trace.steps:
        if step.model is not None:
            yield _record(trace, step)


def _record(trace: Trace, step: TraceStep) -> dict[str, Any]:
    request, response, usage = step.request or {}, step.response or {}, step.usage
    return {
        "run": trace.run_id,
        "item": trace.item_id,
        "sample": trace.sample,
        "round": step.round,
        "agent": step.role or step.node,
        "messages": request.get("messages"),
        "answer": response.get("text"),
        "reasoning": response.get("reasoning"),
        "problem": step.problem,
        "error": step.error,
        "model": step.model,
        "params": request.get("params"),
        "schema": request.get("schema"),
        "usage": None if usage is None else usage.to_json(),
        "cost_usd": None if usage is None else cost_usd(usage.cost_nano, usage.unpriced),
        "began_s": round(step.began_s, 6),
        "duration_s": round(step.duration_s, 6),
        "step": step.id,
        "path": step.path,
        "generation": step.generation,
        "attempt": step.attempt,
    }


def trajectory_name(trace: Trace) -> str:
    """Return the file name of an item's trajectory: its row number, id and, from the second on, sample."""
    name = f"{trace.row:05}-{_NOT_IN_NAMES.sub('_', trace.item_id)[:_NAME_CHARS]}"
    if trace.sample > 1:
        name += f"-{trace.sample}"
    return f"{name}.jsonl"


def write_trajectories(traces: Iterable[Trace], folder: Path) -> int:
    """Write the trajectory of each item to a file of its own in a new folder, all or none; return how many."""
    count = 0
    with _new_folder(folder) as temporary:
        for trace in traces:
            lines = [json_bytes(record) + b"\n" for record in trajectory(trace)]
            file = temporary / trajectory_name(trace)
            if file.exists():  # a row that was inserted later may have the number and the letters of another
                file = file.with_stem(f"{file.stem}~{count}")
            file.write_bytes(b"".join(lines))
            count += 1
    return count


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder that becomes this one at the end; one that has files already is refused."""
    temporary = folder.parent / f".graphmill-{uuid4().hex[:8]}.tmp"
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{str(folder)!r} already exists; name a new or an empty folder")
        temporary.mkdir()
        try:
            yield temporary
            temporary.replace(folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:
        raise ExportError(f"cannot write {str(folder)!r}: {error.strerror or error}") from error
