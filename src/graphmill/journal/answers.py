"""Answers that people give to the questions of waiting items, as rows of the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from graphmill.core.errors import Permanent, UsageError
from graphmill.core.json import item_key
from graphmill.core.result import Status
from graphmill.core.suggest import suggestion
from graphmill.engine.jobs.context import Question
from graphmill.journal.bodies import with_body
from graphmill.journal.records import Entry, ItemHistory, Query, RunRecord, StepRow
from graphmill.journal.store import Archive

_WAITING = Query(statuses=frozenset({Status.WAITING}))
_NAMED = 5
_MOST_LISTED = 1000  # among which a nearly right one is looked for


def answer_rows(archive: Archive, run: RunRecord, answers: Mapping[str, Any]) -> list[StepRow]:
    """Return the rows of answers by item; UsageError for one that no item waits for, or that is not JSON."""
    if not isinstance(answers, Mapping):
        raise UsageError(f"answers must be a mapping from item ids to answers, got {type(answers).__name__}")
    if not answers:
        return []
    keys = {name: item_key(name) for name in answers if isinstance(name, str)}
    wanted = frozenset(keys.values())
    waiting = {
        entry.key: entry for entry in archive.entries(run, _WAITING) if entry.key in wanted and entry.result.questions
    }
    if strangers := [name for name in answers if keys.get(name) not in waiting]:
        raise _refusal(archive, run, strangers[0])
    with closing(archive.lookup(run)) as lookup:
        outcomes = lookup.outcomes(list(waiting))
        return [
            row
            for name, answer in answers.items()
            for row in _rows(
                run, waiting[keys[name]], lookup.notes(keys[name]).steps, answer, wanted=outcomes[keys[name]].wanted
            )
        ]


def _refusal(archive: Archive, run: RunRecord, name: Any) -> UsageError:
    """Say why an item takes no answer."""
    history = archive.history(run, item_key(name)) if isinstance(name, str) else ItemHistory()
    if not history.entries:
        return UsageError(
            f"run {run.id} has no item {name!r:.80} waiting for an answer{_waiting_items(archive, run, name)}"
        )
    newest = max(history.entries, key=lambda each: each.generation).result
    return UsageError(f"item {name!r:.80} of run {run.id} is not waiting for an answer: it is {newest.status}")


def _rows(run: RunRecord, entry: Entry, steps: Sequence[StepRow], answer: Any, *, wanted: int) -> list[StepRow]:
    name, answered = entry.result.job_id, {(step.path, step.content) for step in steps if step.is_answer}
    asked = [Question.from_metadata(note) for note in entry.result.metadata["questions"]]
    questions = [question for question in asked if (question.path, question.content) not in answered]
    if entry.is_orphaned or max(run.generation, wanted) > entry.generation:
        why = "it is no longer in the source" if entry.is_orphaned else "it will run again, and ask again"
        raise UsageError(
            f"item {name!r:.80} of run {run.id} can't be answered: {why}; resume the run without this answer"
        )
    if not questions:
        raise UsageError(f"item {name!r:.80} of run {run.id} already has its answer; resume the run without this one")
    return [_row(entry, question, given) for question, given in _matched(name, questions, answer)]


def _matched(name: str, questions: Sequence[Question], answer: Any) -> list[tuple[Question, Any]]:
    """Return each answer with its question: the only one, or those that are named by their paths."""
    if len(questions) == 1:
        return [(questions[0], answer)]
    by_path = {question.path: question for question in questions}
    if not isinstance(answer, Mapping) or not answer or not set(answer) <= set(by_path):
        paths = ", ".join(by_path)
        raise UsageError(
            f"item {name!r:.80} waits for {len(by_path)} answers; give a mapping with some or all of the keys {paths}"
        )
    return [(by_path[path], given) for path, given in answer.items()]


def _row(entry: Entry, question: Question, answer: Any) -> StepRow:
    try:
        _, body = with_body({"question": question.value, "answer": answer})
    except Permanent as error:
        reason = str(error).replace("the output", "it", 1)
        raise UsageError(f"the answer to item {entry.result.job_id!r:.80} can't be recorded: {reason}") from error
    return StepRow(entry.key, entry.generation, question.path, question.content, 0, 0.0, body, None)


def _waiting_items(archive: Archive, run: RunRecord, name: Any) -> str:
    names = [
        entry.result.job_id for entry in islice(archive.entries(run, _WAITING), _MOST_LISTED) if entry.result.questions
    ]
    if not names:
        return "; no item does"
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{suggestion(str(name), names)}; waiting items: {', '.join(map(repr, names[:_NAMED]))}{more}"
