"""What a resumed or retried run does again, and what of its record is still valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from graphmill.core.errors import Ambiguous
from graphmill.core.result import Kind
from graphmill.core.usage import NO_USAGE, Usage
from graphmill.engine.failures import Reported, crashed
from graphmill.engine.results.recorder import FailedAttempts
from graphmill.journal.bodies import failure_from, usage_from
from graphmill.journal.records import AttemptRow, ItemNotes, RecordedOutcome, StepRow

NOT_COUNTED = (Kind.THROTTLED, Kind.UNAVAILABLE, Kind.CANCELLED, Kind.PAUSED)  # kinds of attempts that use up none


class ValidSteps(NamedTuple):
    """``steps`` whose outcomes stand, ``intended`` paths of unsafe ones that may have happened, ``failed`` attempts of others, by path.

    ``since`` is the generation in which the item was begun that is now gone on with.
    """

    steps: Sequence[StepRow]
    intended: frozenset[str]
    failed: Mapping[str, FailedAttempts]
    since: int


def valid_steps(notes: ItemNotes, generation: int, outcome: RecordedOutcome | None) -> ValidSteps:
    """Tell what stands for an item that is to be done in this generation and has this result so far.

    What went well stands, and a note unless it is passing. A failure stands until a retry wants the item again. What may have
    happened, and must not twice, stands even then, unless the item itself was ambiguous: then it was retried by its name, or its kind's.
    """
    wanted, since = 0 if outcome is None else outcome.wanted, begun_in(notes, generation)
    is_named = outcome is not None and outcome.kind is Kind.AMBIGUOUS and outcome.wanted > outcome.generation
    steps = [step for step in notes.steps if step.error is None or _stands(step, since, wanted, is_named=is_named)]
    failed = _failed([attempt for attempt in notes.attempts if attempt.generation >= since])
    return ValidSteps(steps, _intended(notes, since, is_named=is_named), failed, since)


def begun_in(notes: ItemNotes, generation: int) -> int:
    """Tell in which generation an item was begun that is gone on with in this one: an answer goes on with what was paused."""
    answered = {step.generation for step in notes.steps if step.is_answer}
    while generation - 1 in answered:
        generation -= 1
    return generation


def _intended(notes: ItemNotes, since: int, *, is_named: bool) -> frozenset[str]:
    begun = [attempt for attempt in notes.attempts if attempt.kind is None]
    now = frozenset(attempt.path for attempt in begun if attempt.generation >= since)
    if is_named:
        return now
    last = {step.path: step.generation for step in notes.steps}  # by generation: the highest comes last
    return now | {attempt.path for attempt in begun if attempt.path and last.get(attempt.path, -1) < attempt.generation}


def _stands(failed: StepRow, since: int, wanted: int, *, is_named: bool) -> bool:
    if failed.is_note:
        return failed.generation >= since
    return failed.generation >= wanted or not (is_named or _is_sure(failed))


def _is_sure(step: StepRow) -> bool:
    return step.error is None or failure_from(step.error).kind is not Kind.AMBIGUOUS


def _failed(attempts: Sequence[AttemptRow]) -> Mapping[str, FailedAttempts]:
    found: dict[str, list[AttemptRow]] = {}
    for attempt in attempts:
        if attempt.path and attempt.kind is not None:
            found.setdefault(attempt.path, []).append(attempt)
    return {path: _together(rows) for path, rows in found.items()}


def used_by(rows: Sequence[AttemptRow]) -> Usage | None:
    """Add up what attempts used; None if that is not known of any."""
    usages = [usage for row in rows if (usage := usage_from(row.usage)) is not None]
    return sum(usages, NO_USAGE) if usages else None


def _together(rows: Sequence[AttemptRow]) -> FailedAttempts:
    return FailedAttempts(
        last=max(row.attempt for row in rows),
        counted=sum(row.kind not in NOT_COUNTED for row in rows),
        usage=used_by(rows),
    )


async def ambiguous(_item: Any) -> NoReturn:
    """Fail for an item that was under way when the process died, and must not happen twice."""
    raise Ambiguous("it was under way when the process died, and may have happened; look, then retry it if it has not")


async def poisoned(_item: Any) -> NoReturn:
    """Fail for an item that has killed the whole process again and again while nothing else ran."""
    raise Reported(crashed("the whole process died three times while this ran alone"))
