"""The dead letters of a run: the items that failed for good, and what they have in common; and those that are degraded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

from graphmill.core.result import FAILURES, Kind, Result
from graphmill.engine.error_groups import ErrorGroup, ErrorGroups
from graphmill.journal.ports import Archive
from graphmill.journal.records import Query, RunRecord
from graphmill.report.run_view import run_name
from graphmill.report.text import error_lines, group_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """How many items failed, in groups, and the first of them in input order; likewise the ids of those that are ``degraded``."""

    run: RunRecord
    failed: int
    groups: Sequence[ErrorGroup]
    first: Sequence[Result]
    degraded: int = 0
    first_degraded: Sequence[str] = ()


def dead_letters(archive: Archive, run: RunRecord, *, kind: Kind | None = None, limit: int) -> DeadLetters:
    """Read the items that failed, all or those of one kind, in one pass; at most ``limit`` are kept."""
    groups, first, failed = ErrorGroups(), list[Result](), 0
    for entry in archive.entries(run, Query(statuses=FAILURES, kinds=None if kind is None else frozenset({kind}))):
        failed += 1
        if entry.result.error is not None:
            groups.add(entry.result.error)
        if len(first) < limit:
            first.append(entry.result)
    found = (
        []
        if kind is not None
        else [entry.result.job_id for entry in archive.entries(run, Query(is_degraded=True, limit=limit))]
    )
    degraded = 0 if kind is not None else sum(count.number for count in archive.counts(run) if count.is_degraded)
    return DeadLetters(
        run=run, failed=failed, groups=groups.largest_first(), first=first, degraded=degraded, first_degraded=found
    )


def dead_letter_lines(letters: DeadLetters) -> list[str]:
    """Show the groups, then the items, one line each."""
    return [*group_lines(letters.groups), "", *error_lines(letters.first, letters.failed)]


def degraded_lines(letters: DeadLetters) -> list[str]:
    """Name the items that are degraded, and the command that shows what failed in each."""
    if not letters.degraded:
        return []
    count = "1 item is" if letters.degraded == 1 else f"{letters.degraded:,} items are"
    name = quote(run_name(letters.run))
    lines = [f"{count} degraded: succeeded, though something inside failed"]
    lines += [f"  graphmill show {name} {quote(item_id)}" for item_id in letters.first_degraded]
    more = letters.degraded - len(letters.first_degraded)
    return [*lines, f"  ...and {more:,} more"] if more else lines


def answer_lines(letters: DeadLetters) -> list[str]:
    """Name the command that shows what a model has said that could not be used, of the first item of which that is known."""
    said = next((one.job_id for one in letters.first if one.error is not None and one.error.answer), None)
    return (
        []
        if said is None
        else [f"graphmill show {quote(run_name(letters.run))} {quote(said)}   shows what the model said"]
    )


def dead_letters_record(letters: DeadLetters) -> dict[str, Any]:
    """Give the dead letters as data."""
    return {
        "run": letters.run.id,
        "failed": letters.failed,
        "groups": letters.groups,
        "items": [failure_record(one) for one in letters.first],
        "degraded": letters.degraded,
        "degraded_items": letters.first_degraded,
    }


def failure_record(result: Result) -> dict[str, Any]:
    """Give an item that failed as data, without what it was made from."""
    error = result.error
    return {
        "id": result.job_id,
        "status": result.status,
        "kind": None if error is None else error.kind,
        "type": None if error is None else error.type,
        "message": None if error is None else error.message,
        "attempts": result.attempts,
    }
