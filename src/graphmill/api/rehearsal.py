"""Rehearse a run: which script answers in place of its models, also when it is resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from graphmill.core.errors import Unavailable, UsageError
from graphmill.core.model_call import ModelRequest
from graphmill.graph.models.target import REHEARSAL_PROTOCOL, Rehearsal, current_rehearsal, run_notes
from graphmill.graph.registry import find_provider
from graphmill.journal.manifest import openable
from graphmill.journal.records import REHEARSE, RunRecord

Rehearse = bool | str | Path | Callable[[ModelRequest], Any]
_UNNAMED = "a function"


@contextmanager
def rehearsing(given: Rehearse | None) -> Iterator[None]:
    """Let a script answer every model call of this block; with None or False nothing changes."""
    rehearsal = _rehearsal(given)
    if rehearsal is None:
        yield
        return
    token = current_rehearsal.set(rehearsal)
    try:
        yield
    finally:
        current_rehearsal.reset(token)


def rehearsing_as(run: RunRecord) -> AbstractContextManager[None]:
    """Rehearse as a recorded run did, if it is a rehearsal."""
    script = run.options.get(REHEARSE)
    if script != _UNNAMED:
        return rehearsing(True if script == "" else script)
    if current_rehearsal.get() is None:
        raise UsageError(
            f"run {run.id} is a rehearsal by a function that only its program has; call "
            f"gm.batch(…, run_id={run.id!r}, rehearse=function) there"
        )
    return rehearsing(None)


def scoring_as(run: RunRecord) -> AbstractContextManager[None]:
    """Rehearse the scoring of a rehearsal, also of one whose function only its program has."""
    if run.options.get(REHEARSE) == _UNNAMED:
        return rehearsing(current_rehearsal.get() is None)
    return rehearsing_as(run)


def _rehearsal(given: Rehearse | None) -> Rehearsal | None:
    if given is None or given is False:
        return None
    if given is True:
        return Rehearsal()
    if callable(given):
        return Rehearsal(openable(given) or _UNNAMED, given)
    script = str(given)
    if Path(script).is_file() or ":" not in script:
        script = str(Path(script).absolute())
    try:
        find_provider(REHEARSAL_PROTOCOL).require(script)  # type: ignore[attr-defined]
    except Unavailable as error:
        raise UsageError(str(error)) from None
    return Rehearsal(script)


def rehearsal_note() -> dict[str, str]:
    """Return what the manifest of a run notes of its rehearsal."""
    rehearsal = current_rehearsal.get()
    return {} if rehearsal is None else {REHEARSE: rehearsal.script}


def require_same(run: RunRecord) -> None:
    """Refuse to mix results of a rehearsal with those of models."""
    was, now = REHEARSE in run.options, current_rehearsal.get() is not None
    if was and not now:
        raise UsageError(
            f"run {run.id} is a rehearsal; use another run id, or rehearse again (--rehearse, rehearse=True)"
        )
    if now and not was:
        raise UsageError(f"run {run.id} is not a rehearsal; use another run id, or remove --rehearse (rehearse=)")


@contextmanager
def collecting_notes(notes: list[str]) -> Iterator[None]:
    """Collect what the run of this block has to say, such as a rule that never matched."""
    token = run_notes.set(notes)
    try:
        yield
    finally:
        run_notes.reset(token)
