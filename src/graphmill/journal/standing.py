"""What stands of the steps that earlier processes have recorded of an item, when it is gone on with or done again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from graphmill.core.result import Kind
from graphmill.journal.bodies import failure_from
from graphmill.journal.records import AttemptRow, Notes, Outcome, StepRow

NOT_COUNTED = (Kind.THROTTLED, Kind.UNAVAILABLE, Kind.CANCELLED, Kind.PAUSED)  # kinds of attempts that use up none


class Standing(NamedTuple):
    """``steps`` whose outcomes stand, ``intended`` paths of unsafe ones that may have happened, ``failed`` attempts of others.

    Those are given by path: the number of the last one, and how many of them count.
    """

    steps: Sequence[StepRow]
    intended: frozenset[str]
    failed: Mapping[str, tuple[int, int]]


def standing(notes: Notes, generation: int, outcome: Outcome | None) -> Standing:
    """Tell what stands for an item that is to be done in this generation and has this result so far.

    What went well stands, and a note unless it is passing. A failure stands until a retry wants the item again. What may have
    happened, and must not twice, stands even then, unless the item itself was ambiguous: then it was retried by its name, or its kind's.
    """
    wanted = 0 if outcome is None else outcome.wanted
    is_named = outcome is not None and outcome.kind is Kind.AMBIGUOUS and outcome.wanted > outcome.generation
    steps = [step for step in notes.steps if step.error is None or _stands(step, generation, wanted, is_named=is_named)]
    last = {step.path: step.generation for step in notes.steps}  # by generation: the highest comes last
    begun = [attempt for attempt in notes.attempts if attempt.kind is None]
    intended = {attempt.path for attempt in begun if attempt.generation == generation}
    if not is_named:
        intended |= {attempt.path for attempt in begun if attempt.path and last.get(attempt.path, -1) < attempt.generation}
    return Standing(steps, frozenset(intended), _failed([attempt for attempt in notes.attempts if attempt.generation == generation]))


def _stands(failed: StepRow, generation: int, wanted: int, *, is_named: bool) -> bool:
    if failed.is_note:
        return failed.generation == generation
    return failed.generation >= wanted or not (is_named or _is_sure(failed))


def _is_sure(step: StepRow) -> bool:
    return step.error is None or failure_from(step.error).kind is not Kind.AMBIGUOUS


def _failed(attempts: Sequence[AttemptRow]) -> Mapping[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for attempt in attempts:
        if attempt.path and attempt.kind is not None:
            last, counted = found.get(attempt.path, (0, 0))
            found[attempt.path] = (max(last, attempt.attempt), counted + (attempt.kind not in NOT_COUNTED))
    return found
