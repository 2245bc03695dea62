"""What a batch node gives: results, errors, outcomes, counts and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.core.result import Failure, Kind
from graphmill.engine.policy import Retry

if TYPE_CHECKING:
    from graphmill.graph.graph import BatchRule


class Outcome(NamedTuple):
    """What became of one item: its values, or its failure; neither if it was cancelled."""

    number: int
    item: Any
    values: Mapping[str, Any] | None
    failure: Failure | None
    attempts: int
    began_s: float
    ended_s: float

    @property
    def status(self) -> str:
        """The word for it."""
        if self.values is not None:
            return "succeeded"
        if self.failure is None:
            return "cancelled"
        return "timed_out" if self.failure.kind is Kind.TIMEOUT else "failed"


def batch_output(rule: BatchRule, retry: Retry, ended: Sequence[Outcome], count: int) -> dict[str, Any]:
    """Give the output of a batch node over ``count`` items out of those that ended, in that order; the others were cancelled."""
    in_order = sorted(ended, key=attrgetter("number"))
    results = {outcome.number: _result(outcome) for outcome in ended if outcome.values is not None}
    errors = {outcome.number: _error(outcome) for outcome in in_order if outcome.failure is not None}
    outcomes: list[dict[str, Any]] = [{"status": "cancelled", "error": None}] * count
    for outcome in ended:
        number = outcome.number
        found = {"error": errors[number]} if outcome.values is None else {"result": results[number]}
        outcomes[number] = {"status": outcome.status, **found}
    listed = in_order if rule.is_ordered else ended
    return {
        "results": [results[outcome.number] for outcome in listed if outcome.number in results],
        "errors": list(errors.values()),
        "outcomes": outcomes,
        "count": count,
        "success_count": len(results),
        "error_count": len(errors),
        "cancelled_count": count - len(ended),
        "batch_metadata": _metadata(rule, retry, ended),
    }


def _result(outcome: Outcome) -> dict[str, Any]:
    return {**(outcome.values or {}), "item": outcome.item, "original_index": outcome.number}


def _error(outcome: Outcome) -> dict[str, Any]:
    failure = outcome.failure
    return {
        "index": outcome.number,
        "item": outcome.item,
        "error": "" if failure is None else failure.message,
        "kind": "" if failure is None else str(failure.kind),
        "attempts": outcome.attempts,
    }


def _metadata(rule: BatchRule, retry: Retry, ended: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "parallel": rule.is_parallel,
        "max_concurrent": rule.max_concurrent,
        "max_retries": retry.attempts,
        "retry_wait": retry.wait_s,
        "execution_mode": "parallel" if rule.is_parallel else "sequential",
        "timing": _timing(ended),
    }


def _timing(ended: Sequence[Outcome]) -> dict[str, float]:
    seconds = sorted(outcome.ended_s - outcome.began_s for outcome in ended)
    if not seconds:
        return dict.fromkeys(("wall", "total", "average", "minimum", "maximum", "p95"), 0.0)
    total = sum(seconds)
    return {
        "wall": max(outcome.ended_s for outcome in ended) - min(outcome.began_s for outcome in ended),
        "total": total,
        "average": total / len(seconds),
        "minimum": seconds[0],
        "maximum": seconds[-1],
        "p95": seconds[-(-95 * len(seconds) // 100) - 1],
    }
