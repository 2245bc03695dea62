"""The failed items of a run and what they have in common; and those that are degraded or partial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any

from graphmill.core.result import FAILURES, Kind, Result
from graphmill.engine.results.statistics import ErrorGroup, ErrorGroups
from graphmill.journal.records import Query, RunRecord
from graphmill.journal.store import Archive
from graphmill.report.run_view import run_name
from graphmill.report.text import error_lines, group_lines, more_lines, one_line_message

_REASON_CHARS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """How many items failed, in groups, and the first of them in input order; the same of flagged ones."""

    run: RunRecord
    failed: int
    groups: Sequence[ErrorGroup]
    first: Sequence[Result]
    degraded: int = 0
    first_degraded: Sequence[Result] = ()
    partial: int = 0
    first_partial: Sequence[Result] = ()


def read_failures(archive: Archive, run: RunRecord, *, kind: Kind | None = None, limit: int) -> Failures:
    """Read the failed items, or those of one kind, in one pass; hold at most ``limit`` of them."""
    groups, first, failed = ErrorGroups(), list[Result](), 0
    for entry in archive.entries(run, Query(statuses=FAILURES, kinds=None if kind is None else frozenset({kind}))):
        failed += 1
        if entry.result.error is not None:
            groups.add(entry.result.error)
        if len(first) < limit:
            first.append(entry.result)
    found = Failures(run=run, failed=failed, groups=groups.largest_first(), first=first)
    if kind is not None:
        return found
    return _with_flagged(archive, found, limit)


def _with_flagged(archive: Archive, failures: Failures, limit: int) -> Failures:
    run, counts = failures.run, archive.counts(failures.run)
    partial = Query(statuses=frozenset(), or_partial=True, limit=limit)
    return replace(
        failures,
        degraded=sum(count.number for count in counts if count.is_degraded),
        first_degraded=[entry.result for entry in archive.entries(run, Query(is_degraded=True, limit=limit))],
        partial=sum(count.number for count in counts if count.is_partial),
        first_partial=[entry.result for entry in archive.entries(run, partial)],
    )


def failures_lines(failures: Failures) -> list[str]:
    """Show the groups, then the items, one line each."""
    return [*group_lines(failures.groups), "", *error_lines(failures.first, failures.failed)]


def flagged_lines(failures: Failures) -> list[str]:
    """Name the degraded and the partial items, each as the command that shows what happened inside it."""
    what = "degraded: succeeded, though something inside failed"
    lines = _flagged_lines(failures.run, failures.degraded, failures.first_degraded, what)
    what = "partial: succeeded, with less than all"
    return lines + _flagged_lines(failures.run, failures.partial, failures.first_partial, what)


def _flagged_lines(run: RunRecord, number: int, first: Sequence[Result], what: str) -> list[str]:
    if not number:
        return []
    count = "1 item is" if number == 1 else f"{number:,} items are"
    name = quote(run_name(run))
    return [
        f"{count} {what}",
        *(f"  graphmill show {name} {quote(result.job_id)}{_reason(result)}" for result in first),
        *more_lines(number - len(first)),
    ]


def _reason(result: Result) -> str:
    """Return the message of the output ``error``, where a workflow that makes partial items says why."""
    error = result.output.get("error") if isinstance(result.output, Mapping) else None
    if not isinstance(error, Mapping) or not isinstance(error.get("message"), str):
        return ""
    return f"   {one_line_message(error['message'], _REASON_CHARS)}"


def answer_lines(failures: Failures) -> list[str]:
    """Name the command that shows a model's unusable answer, for the first item that has one."""
    for result in failures.first:
        if result.error is not None and result.error.answer:
            command = f"graphmill show {quote(run_name(failures.run))} {quote(result.job_id)}"
            return [f"{command}   shows what the model said"]
    return []


def failures_record(failures: Failures) -> dict[str, Any]:
    """Return the same as data."""
    return {
        "run": failures.run.id,
        "failed": failures.failed,
        "groups": failures.groups,
        "items": [failure_record(result) for result in failures.first],
        "degraded": failures.degraded,
        "degraded_items": [result.job_id for result in failures.first_degraded],
        "partial": failures.partial,
        "partial_items": [result.job_id for result in failures.first_partial],
    }


def failure_record(result: Result) -> dict[str, Any]:
    """Return a failed item as data, without its input."""
    record: dict[str, Any] = {
        "id": result.job_id,
        "status": result.status,
        "kind": None,
        "type": None,
        "message": None,
        "attempts": result.attempts,
    }
    if result.error is not None:
        record |= {"kind": result.error.kind, "type": result.error.type, "message": result.error.message}
    return record
