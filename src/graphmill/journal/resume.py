"""What a resumed or retried run does again, and what of its record is still valid.

``decide`` is the subject of this page: for one item, whether its recorded result stays valid, whether it runs, or
whether the run is refused. Everything here is a pure function of what is recorded; ``intake`` asks, and acts on the
answer.

Each result belongs to a *generation*: 1, and one more whenever the item runs anew because it was retried, edited or
answered, or because the graph changed. The result of the highest generation counts; it is valid unless a higher one is
wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, NoReturn

import msgspec

from graphmill.core.errors import Ambiguous, ChangedError
from graphmill.core.job import NO_PAST, Effect, Past
from graphmill.core.result import Kind, Status
from graphmill.core.usage import NO_USAGE, Usage
from graphmill.engine.failures import Reported, crashed
from graphmill.engine.results.recorder import FailedAttempts
from graphmill.journal.bodies import failure_from, in_order, usage_from
from graphmill.journal.records import (
    AttemptRow,
    ItemNotes,
    RecordedOutcome,
    ResultCount,
    RunRecord,
    StepRow,
    SuspectRow,
)

OnChange = Literal["refuse", "invalidate", "keep"]
MAX_CRASHES_ALONE = 3
CRASHES_TO_SUSPECT = 2
NOT_COUNTED = (Kind.THROTTLED, Kind.UNAVAILABLE, Kind.CANCELLED, Kind.PAUSED)  # kinds of attempts that use up none

_NO_NOTES = ItemNotes()
_NO_FAILED: Mapping[str, FailedAttempts] = MappingProxyType({})


class ResumeRules(NamedTuple):
    """What holds for all items of a run.

    ``generation`` is the least that counts; ``on_change`` says what to do with an item whose input has changed. A retry
    ``reuses_inputs``: it takes the recorded ones, and their hashes with them.
    """

    generation: int
    on_change: OnChange
    reuses_inputs: bool = False


class RecordedItem:
    """The record of one item: its result, if it has one, and its notes, which are read when first needed."""

    def __init__(
        self,
        outcome: RecordedOutcome | None,
        *,
        read_notes: Callable[[], ItemNotes] = lambda: _NO_NOTES,
        read_last_steps: Callable[[], Sequence[StepRow]] = tuple,
        is_suspect: bool = False,
    ) -> None:
        self.outcome = outcome
        self.is_suspect = is_suspect
        self._read_notes = read_notes
        self._read_last_steps = read_last_steps

    @cached_property
    def notes(self) -> ItemNotes:
        """Attempts, steps and suspicions, without the steps that are in the rows of results."""
        return self._read_notes()

    def all_notes(self) -> ItemNotes:
        """Read the notes with all steps, in order."""
        if self.outcome is None:
            return self.notes
        return replace(self.notes, steps=in_order(self.notes.steps, self._read_last_steps()))


class SkipItem(NamedTuple):
    """The recorded result is valid."""

    status: Status


class RefuseItem(NamedTuple):
    """The run must not go on: the item's input is not what its result was made from."""


class RunItem(NamedTuple):
    """The item runs, in this generation; ``content`` is the hash that its result is recorded with."""

    generation: int
    content: bytes
    recorded: RecordedItem | None = None


def decide(recorded: RecordedItem, *, content: bytes, rules: ResumeRules) -> SkipItem | RunItem | RefuseItem:
    """Decide what becomes of an item whose input has this hash."""
    outcome = recorded.outcome
    if outcome is None:
        return RunItem(rules.generation, content, recorded)
    if rules.reuses_inputs:
        content = outcome.content
    wanted = max(rules.generation, outcome.wanted)
    if outcome.generation < wanted:  # it is retried, or the graph has changed
        return RunItem(wanted, content, recorded)
    if content != outcome.content and rules.on_change != "keep":
        if rules.on_change == "refuse":
            return RefuseItem()
        return RunItem(outcome.generation + 1, content, recorded)
    if outcome.status is Status.WAITING and is_answered(recorded.notes.steps, outcome.generation):
        return RunItem(outcome.generation + 1, content, recorded)
    return SkipItem(outcome.status)


def is_answered(steps: Sequence[StepRow], generation: int) -> bool:
    """Whether somebody has answered an item that was paused in this generation."""
    return any(step.generation == generation and step.is_answer for step in steps)


# -- what is still valid of an item that runs again


class ValidSteps(NamedTuple):
    """The recorded ``steps`` that do not run again.

    ``intended`` are the paths of unsafe steps that may have happened, ``failed`` the failed attempts by path. ``since``
    is the generation in which the item began that continues now, 0 if nothing is recorded.
    """

    steps: Sequence[StepRow] = ()
    intended: frozenset[str] = frozenset()
    failed: Mapping[str, FailedAttempts] = _NO_FAILED
    since: int = 0


class PastWork(NamedTuple):
    """What earlier processes have done of an item that runs now.

    ``instead`` replaces the item's own function where that must not be called. If ``is_suspected``, the process has
    died under the item.
    """

    past: Past = NO_PAST
    valid: ValidSteps = ValidSteps()
    is_suspected: bool = False
    instead: Callable[[Any], Any] | None = None


NO_PAST_WORK = PastWork()


def past_work(recorded: RecordedItem, generation: int, effect: Effect) -> PastWork:
    """Return what has been done of an item that runs in this generation, and whether it may be run at all."""
    notes = recorded.all_notes()
    valid = valid_steps(notes, generation, recorded.outcome)
    past = _past(notes, valid.since, is_suspect=recorded.is_suspect)
    suspect = notes.suspect
    if suspect is not None and suspect.alone >= MAX_CRASHES_ALONE:
        return PastWork(_with_crashes(past), instead=fail_as_poisoned)
    if effect == "unsafe" and "" in valid.intended:
        return PastWork(past, instead=fail_as_ambiguous)
    return PastWork(past, valid, is_suspected=suspect is not None and suspect.crashes > 0)


def valid_steps(notes: ItemNotes, generation: int, outcome: RecordedOutcome | None) -> ValidSteps:
    """Return which steps of an item do not run again in this generation, after this result.

    What succeeded is valid, and so is a note, unless it is passing. A failure is valid until the item is retried. What
    may have happened, and must not twice, is valid even then, unless the item itself was ambiguous: then it was retried
    by its id, or its kind. A partial item in which no step failed would only come to the same end, so that a retry
    keeps nothing of it but what must not happen twice, and people's answers.
    """
    wanted, since = 0, first_generation(notes, generation)
    is_named = False
    if outcome is not None:
        wanted = outcome.wanted
        is_named = outcome.kind is Kind.AMBIGUOUS and outcome.wanted > outcome.generation
    steps = [step for step in notes.steps if step.error is None or _is_valid(step, since, wanted, is_named=is_named)]
    is_retry_of_partial = outcome is not None and outcome.is_partial and wanted > outcome.generation
    if is_retry_of_partial and not _has_failed(notes, before=wanted):
        lasting = {attempt.path for attempt in notes.attempts if attempt.kind is None}
        steps = [step for step in steps if step.is_answer or step.path in lasting or step.generation >= wanted]
    failed = _failed([attempt for attempt in notes.attempts if attempt.generation >= since])
    return ValidSteps(steps, _intended(notes, since, is_named=is_named), failed, since)


def _has_failed(notes: ItemNotes, *, before: int) -> bool:
    """Whether a step has failed the last time it ran before this generation."""
    last = {step.path: step for step in notes.steps if not step.is_note and step.generation < before}
    return any(step.error is not None for step in last.values())


def first_generation(notes: ItemNotes, generation: int) -> int:
    """Return the generation in which an item began: an answer continues what was paused."""
    answered = {step.generation for step in notes.steps if step.is_answer}
    while generation - 1 in answered:
        generation -= 1
    return generation


async def fail_as_ambiguous(_item: Any) -> NoReturn:
    """Fail for an item that was under way when the process died, and must not happen twice."""
    raise Ambiguous("it was under way when the process died, and may have happened; look, then retry it if it has not")


async def fail_as_poisoned(_item: Any) -> NoReturn:
    """Fail for an item that has killed the whole process again and again while nothing else ran."""
    raise Reported(crashed("the whole process died three times while this ran alone"))


def suspicion(before: SuspectRow, *, was_alone: bool) -> SuspectRow:
    """Suspect an item that was in flight when the process died, once more."""
    return SuspectRow(before.key, before.crashes + 1, before.alone + was_alone)


def used_by(rows: Sequence[AttemptRow]) -> Usage | None:
    """Add up what attempts used; None if that is not known of any."""
    usages = [usage for row in rows if (usage := usage_from(row.usage)) is not None]
    return sum(usages, NO_USAGE) if usages else None


def _past(notes: ItemNotes, since: int, *, is_suspect: bool) -> Past:
    """Count the failed attempts of the job itself, not of its steps."""
    failed = [
        attempt
        for attempt in notes.attempts
        if attempt.generation >= since and attempt.kind is not None and not attempt.path
    ]
    return Past(
        attempts=max((attempt.attempt for attempt in failed), default=0),
        counted=sum(attempt.kind not in NOT_COUNTED for attempt in failed),
        crashes=sum(attempt.kind is Kind.CRASH for attempt in failed),
        is_suspect=is_suspect,
        usage=used_by(failed),
    )


def _with_crashes(past: Past) -> Past:
    return msgspec.structs.replace(past, crashes=MAX_CRASHES_ALONE)


def _intended(notes: ItemNotes, since: int, *, is_named: bool) -> frozenset[str]:
    started = [attempt for attempt in notes.attempts if attempt.kind is None]
    now = frozenset(attempt.path for attempt in started if attempt.generation >= since)
    if is_named:
        return now
    last = {step.path: step.generation for step in notes.steps}  # by generation: the highest comes last
    return now | {
        attempt.path for attempt in started if attempt.path and last.get(attempt.path, -1) < attempt.generation
    }


def _is_valid(failed: StepRow, since: int, wanted: int, *, is_named: bool) -> bool:
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
    return {path: _summed(rows) for path, rows in found.items()}


def _summed(rows: Sequence[AttemptRow]) -> FailedAttempts:
    return FailedAttempts(
        last=max(row.attempt for row in rows),
        counted=sum(row.kind not in NOT_COUNTED for row in rows),
        usage=used_by(rows),
    )


# -- a run whose graph has changed


def generation_after_change(
    run: RunRecord, counts: Sequence[ResultCount], changes: Iterable[str], *, on_change: OnChange, hint: str
) -> int:
    """Return the generation of a run after these changes; ChangedError, with the hint, if it must not continue."""
    results = sum(count.number for count in counts)
    if on_change == "keep" or not (results or run.steps):
        return run.generation
    if on_change == "refuse":
        made = f"{results:,} results" if results else f"{run.steps:,} finished steps"
        raise ChangedError(
            f"run {run.id} has {made} from before a change: {'; '.join(changes)}. Use {hint}, or start a new run"
        )
    return 1 + max([run.generation, *(count.generation for count in counts)])
