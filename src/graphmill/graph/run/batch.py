"""A node with a ``batch`` block: its items one after the other or several at once, and its output."""

from __future__ import annotations

import json
from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import GraphmillError, Permanent, cut
from graphmill.core.json import canonical, digest
from graphmill.core.result import Failure, Kind
from graphmill.engine.jobs.context import is_question
from graphmill.engine.jobs.program import Decision, NeedSpill, Program, SeriesStarted, StepRules
from graphmill.engine.policy import Retry
from graphmill.graph.language.grammar import MAX_TIMES
from graphmill.graph.node_type import Output
from graphmill.graph.run.outcomes import BatchSequence, EndedItems, ItemOutcome, OutcomeIndex, cancelled_outcome
from graphmill.graph.run.scope import Meter, NodeFailed, Scope

if TYPE_CHECKING:
    from graphmill.graph.graph import BatchRule
    from graphmill.graph.template import CompiledValue

RunItem = Callable[[Scope, str], Program]
_ERRORS_SHOWN = 5


def run_batch(rule: BatchRule, rules: StepRules, scope: Scope, path: str, run_item: RunItem) -> Program:
    """Run a node for each item; return the batch's Output, or raise NodeFailed with it."""
    if not scope.spill.is_requested:
        scope.spill.is_requested = True
        scope.spill.pages = yield NeedSpill()
    batch = _Batch(rule, rules, scope, path, run_item)
    if "[" not in path:  # not inside another batch's item
        yield SeriesStarted(batch)
    if rule.is_parallel:
        yield batch
    else:
        while (program := batch.more()) is not None:
            batch.ended(program, (yield from program), None)
            if batch.is_stopped or batch.is_waiting:
                break
    summary = batch.settle()
    yield Decision(f"{path}#batch", summary, content=lambda: digest(canonical(summary)), is_temporary=True)
    return batch.output()


class _Batch:
    """A fork over items; an item that fails has an outcome like any other."""

    timeout_s: float | None = None

    def __init__(self, rule: BatchRule, rules: StepRules, scope: Scope, path: str, run_item: RunItem) -> None:
        self._rule = rule
        self._rules = rules
        self._scope = scope
        self.path = path
        self._run_item = run_item
        items: Iterable[Any] = rule.entries or ()
        if rule.is_counted:
            items = range(_times_of(rule.items.resolve(scope.names)))
        elif rule.entries is None:
            items = items_of(rule.items.resolve(scope.names))
        self._count = len(items) if isinstance(items, Sized) else None
        self._items = iter(items)
        self._taken = 0
        self._running = 0
        self._ended = EndedItems(scope.spill, holds_items=not isinstance(items, list | tuple | range))
        self._first_failed: list[ItemOutcome] = []  # in the order of items
        self._failures = self._timed_out = 0
        self._fault: NodeFailed | None = None
        self._question: Failure | None = None  # of an item that waits for an answer
        self._values: dict[str, Any] = {}
        self.is_stopped = False

    @property
    def done(self) -> int:
        """How many items have ended."""
        return len(self._ended)

    @property
    def count(self) -> int | None:
        """How many items there are, as far as that is known."""
        return self._count

    @property
    def is_waiting(self) -> bool:
        """Whether the next item has to wait for an answer, because it only runs if those before it succeeded."""
        return self._question is not None and self._rule.error_handling == "fail_fast"

    def more(self) -> Program | None:
        if self._running >= self._rule.max_concurrent or (item := self._next()) is _END:
            return None
        self._taken += 1
        self._running += 1
        return self._one(self._taken - 1, item)

    def ended(self, program: Program, value: Any, failure: Failure | None) -> None:
        del program
        self._running -= 1
        if failure is not None:  # a bug, here or in a node type
            self._fault, self.is_stopped = NodeFailed(failure), True
            return
        outcome: ItemOutcome = value
        if is_question(outcome.failure):
            self._question = outcome.failure
            return
        self._ended.add(outcome)
        if outcome.failure is not None:
            self._failures += 1
            self._timed_out += outcome.failure.kind is Kind.TIMEOUT
            insort(self._first_failed, outcome, key=attrgetter("number"))
            del self._first_failed[_ERRORS_SHOWN:]
            self.is_stopped = self._rule.error_handling == "fail_fast" or self._has_too_many_failures()

    def expire(self) -> None:
        raise AssertionError("a batch has no time-out of its own")

    def settle(self) -> dict[str, Any]:
        """Return a summary of all outcomes; raise NodeFailed if they are not known."""
        if self._fault is not None:
            raise self._fault
        if self._question is not None and not self.is_stopped:
            raise NodeFailed(self._question)
        # A stopped iterator may have more items, but reading it to its end could take forever.
        self._count = max(self._count or 0, self._taken)
        self._values = _batch_output(self._rule, self._rules.retry, self._ended, self._count, path=self.path)
        is_degraded = self._failures > 0 and not self._is_failed()
        errors = [outcome.short_error(self._rules.redact) for outcome in self._first_failed]
        return _batch_summary(self._values, errors, timed_out=self._timed_out, is_degraded=is_degraded)

    def output(self) -> Output:
        """Return the output of the batch; raise NodeFailed if it failed."""
        if self._first_failed and self._is_failed():
            raise self._failed(self._first_failed[0], self._values)
        if self._failures:
            return Output(self._values, flags=frozenset({"degraded"}))
        return Output(self._values)

    def _is_failed(self) -> bool:
        have_all_failed = self._failures > 0 and self._failures == self._count
        return self.is_stopped or have_all_failed or self._has_too_many_failures()

    def _next(self) -> Any:
        try:
            item = next(self._items, _END)
        except Exception as error:  # noqa: BLE001  third-party code
            self._fault, self.is_stopped = NodeFailed.of(error, self._rules.redact), True
            return _END
        if item is _END:
            self._count = self._taken  # whatever length it reported
        return item

    def _one(self, index: int, item: Any) -> Program:
        meter = Meter(self._scope.meter)
        output, failure = None, None
        try:
            if self._rule.entries is not None:
                entry, item = item, None
                item = self._resolve(entry)
            scope = self._scope.with_names({self._rule.alias: item, "__index__": index}, meter=meter)
            output = yield from self._run_item(scope, f"{self.path}[{index}]")
            self._scope.flags.update(output.flags)
        except NodeFailed as failed:
            failure = failed.failure
        values = None if output is None else output.values
        return ItemOutcome(index, item, values, failure, max(meter.attempts, 1), meter.began_s, meter.ended_s)

    def _resolve(self, entry: CompiledValue) -> Any:
        try:
            return entry.resolve(self._scope.names)
        except GraphmillError as error:  # such as a missing name: only this item fails
            raise NodeFailed.of(error, self._rules.redact) from error

    def _has_too_many_failures(self) -> bool:
        """Compare with ``max_failures``; a share is of all items, or of those that ended while the total is unknown."""
        most = self._rule.max_failures
        if not isinstance(most, float):
            return most is not None and self._failures > most
        ended = len(self._ended)
        if not self._failures or (self._count is None and ended < _SHARE_COUNTS_FROM):
            return False
        return self._failures / (self._count or ended) > most

    def _failed(self, first: ItemOutcome, values: Mapping[str, Any]) -> NodeFailed:
        failure: Failure = first.failure  # type: ignore[assignment]
        if self._rule.error_handling == "fail_fast":
            message = f"item {first.number} failed: {failure.message}"
        else:
            counts = f"{self._failures} of {values['count']} items failed"
            message = f"{counts}; the first, item {first.number}: {failure.message}"
        return NodeFailed(replace(failure, message=message), attempts=first.attempts, values=values)


_SHARE_COUNTS_FROM = 20
_END = object()


def items_of(value: Any) -> Iterable[Any]:
    """Return the items of a batch: a list, the list in a JSON text, or any other iterable."""
    if isinstance(value, str):
        value = _array_in(value)
    if isinstance(value, list | tuple) or (
        isinstance(value, Iterable) and not isinstance(value, Mapping | bytes | set | frozenset)
    ):
        return value
    found = "null" if value is None else type(value).__name__
    raise Permanent(f"items must be a list, got {found}")


def _times_of(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_TIMES:
        raise Permanent(f"batch.times must be an integer from 0 to {MAX_TIMES}, got {cut(repr(value), 80)}")
    return value


def _array_in(text: str) -> Any:
    if text.lstrip()[:1] != "[":
        raise Permanent(f"items must be a list or a JSON list, got the text {cut(repr(text), 80)}")
    try:
        return json.loads(text)
    except ValueError as error:
        raise Permanent(f"items must be a list or a JSON list; the text is not valid JSON: {error}") from error


def _batch_output(rule: BatchRule, retry: Retry, ended: EndedItems, count: int, *, path: str) -> dict[str, Any]:
    """Return the output of a batch over ``count`` items; those that did not end were cancelled."""
    if ended.spilled is None:
        found = _lists(rule, ended.in_memory, count)
    else:
        found = _sequences(rule, ended.spilled, count, path)
    return {
        **found,
        "count": count,
        "success_count": len(found["results"]),
        "error_count": len(found["errors"]),
        "cancelled_count": count - len(ended),
        "batch_metadata": _metadata(rule, retry, ended),
    }


def _batch_summary(
    values: Mapping[str, Any], errors: list[dict[str, Any]], *, timed_out: int, is_degraded: bool
) -> dict[str, Any]:
    """Return how many items ended in which way, and the first errors."""
    return {
        "succeeded": values["success_count"],
        "failed": values["error_count"] - timed_out,
        "timed_out": timed_out,
        "cancelled": values["cancelled_count"],
        "degraded": is_degraded,
        "errors": errors,
    }


def _lists(rule: BatchRule, ended: Sequence[ItemOutcome], count: int) -> dict[str, Any]:
    in_order = sorted(ended, key=attrgetter("number"))
    results = {outcome.number: outcome.result() for outcome in ended if outcome.failure is None}
    errors = {outcome.number: outcome.error() for outcome in in_order if outcome.failure is not None}
    outcomes = [cancelled_outcome()] * count
    for outcome in ended:
        number = outcome.number
        if outcome.failure is None:
            outcomes[number] = {"status": outcome.status, "result": results[number]}
        else:
            outcomes[number] = {"status": outcome.status, "error": errors[number]}
    listed = in_order if rule.is_ordered else ended
    return {
        "results": [results[outcome.number] for outcome in listed if outcome.failure is None],
        "errors": list(errors.values()),
        "outcomes": outcomes,
    }


def _sequences(rule: BatchRule, ended: OutcomeIndex, count: int, path: str) -> dict[str, Any]:
    table = ended.by_number(count)
    listed = range(count) if rule.is_ordered else ended.numbers
    return {
        "results": BatchSequence(f"{path}.results", table, table.good(listed), "result"),
        "errors": BatchSequence(f"{path}.errors", table, table.bad(), "error"),
        "outcomes": BatchSequence(f"{path}.outcomes", table, range(count)),
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
    spilled, outcomes = ended.spilled, ended.in_memory
    if spilled is not None:
        seconds, wall = sorted(spilled.seconds), spilled.ended_s - spilled.began_s
    else:
        seconds = sorted(outcome.ended_s - outcome.began_s for outcome in outcomes)
        wall = max(outcome.ended_s for outcome in outcomes) - min(outcome.began_s for outcome in outcomes)
    total = sum(seconds)
    return {
        "wall": wall,
        "total": total,
        "average": total / len(seconds),
        "minimum": seconds[0],
        "maximum": seconds[-1],
        "p95": seconds[-(-95 * len(seconds) // 100) - 1],
    }
