"""What a batch node gives: results, errors, outcomes, counts and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from graphmill.engine.policy import Retry
from graphmill.graph.run.ended_items import EndedItems, Rest
from graphmill.graph.run.outcome import Outcome, cancelled
from graphmill.graph.run.sequence import BatchSequence

if TYPE_CHECKING:
    from graphmill.graph.graph import BatchRule


ERRORS_TOLD = 5


def batch_output(rule: BatchRule, retry: Retry, ended: EndedItems, count: int, *, path: str) -> dict[str, Any]:
    """Give the output of a batch node over ``count`` items out of those that ended; the others were cancelled."""
    found = _lists(rule, ended.kept, count) if ended.rest is None else _sequences(rule, ended.rest, count, path)
    return {
        **found,
        "count": count,
        "success_count": len(found["results"]),
        "error_count": len(found["errors"]),
        "cancelled_count": count - len(ended),
        "batch_metadata": _metadata(rule, retry, ended),
    }


def batch_summary(
    values: Mapping[str, Any], errors: list[dict[str, Any]], *, timed_out: int, is_degraded: bool
) -> dict[str, Any]:
    """Give the output of a batch node in short: how many items ended how, and its first errors."""
    return {
        "succeeded": values["success_count"],
        "failed": values["error_count"] - timed_out,
        "timed_out": timed_out,
        "cancelled": values["cancelled_count"],
        "degraded": is_degraded,
        "errors": errors,
    }


def _lists(rule: BatchRule, ended: Sequence[Outcome], count: int) -> dict[str, Any]:
    in_order = sorted(ended, key=attrgetter("number"))
    results = {outcome.number: outcome.result() for outcome in ended if outcome.failure is None}
    errors = {outcome.number: outcome.error() for outcome in in_order if outcome.failure is not None}
    outcomes = [cancelled()] * count
    for outcome in ended:
        number = outcome.number
        told = {"result": results[number]} if outcome.failure is None else {"error": errors[number]}
        outcomes[number] = {"status": outcome.status, **told}
    listed = in_order if rule.is_ordered else ended
    return {
        "results": [results[outcome.number] for outcome in listed if outcome.failure is None],
        "errors": list(errors.values()),
        "outcomes": outcomes,
    }


def _sequences(rule: BatchRule, ended: Rest, count: int, path: str) -> dict[str, Any]:
    shelf = ended.shelf(count)
    listed = range(count) if rule.is_ordered else ended.numbers
    return {
        "results": BatchSequence(f"{path}.results", shelf, shelf.good(listed), "result"),
        "errors": BatchSequence(f"{path}.errors", shelf, shelf.bad(), "error"),
        "outcomes": BatchSequence(f"{path}.outcomes", shelf, range(count)),
    }


def _metadata(rule: BatchRule, retry: Retry, ended: EndedItems) -> dict[str, Any]:
    return {
        "parallel": rule.is_parallel,
        "max_concurrent": rule.max_concurrent,
        "max_retries": retry.attempts,
        "retry_wait": retry.wait_s,
        "execution_mode": "parallel" if rule.is_parallel else "sequential",
        "timing": _timing(ended),
    }


def _timing(ended: EndedItems) -> dict[str, float]:
    if not len(ended):
        return dict.fromkeys(("wall", "total", "average", "minimum", "maximum", "p95"), 0.0)
    if ended.rest is None:
        seconds = sorted(outcome.ended_s - outcome.began_s for outcome in ended.kept)
        wall = max(outcome.ended_s for outcome in ended.kept) - min(outcome.began_s for outcome in ended.kept)
    else:
        seconds, wall = sorted(ended.rest.seconds), ended.rest.ended_s - ended.rest.began_s
    total = sum(seconds)
    return {
        "wall": wall,
        "total": total,
        "average": total / len(seconds),
        "minimum": seconds[0],
        "maximum": seconds[-1],
        "p95": seconds[-(-95 * len(seconds) // 100) - 1],
    }
