"""A batch node: its items one after the other or several at once, and its output."""

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
from graphmill.graph.node_type import Output
from graphmill.graph.run.outcomes import BatchSequence, EndedItems, Outcome, Rest, cancelled
from graphmill.graph.run.scope import Meter, NodeFailed, Place

if TYPE_CHECKING:
    from graphmill.graph.graph import BatchRule
    from graphmill.graph.template import Value

RunItem = Callable[[Place, str], Program]
ERRORS_TOLD = 5


def run_batch(rule: BatchRule, rules: StepRules, place: Place, path: str, run_item: RunItem) -> Program:
    """Run a node for each item; give the batch's Output, or raise NodeFailed with it."""
    if not place.room.is_asked:
        place.room.is_asked = True
        place.room.pages = yield NeedSpill()
    batch = _Batch(rule, rules, place, path, run_item)
    if "[" not in path:  # not inside of another's item
        yield SeriesStarted(batch)
    if rule.is_parallel:
        yield batch
    else:
        while (program := batch.more()) is not None:
            batch.ended(program, (yield from program), None)
            if batch.is_stopped or batch.is_held:
                break
    summary = batch.settle()
    yield Decision(f"{path}#batch", summary, content=lambda: digest(canonical(summary)), is_temporary=True)
    return batch.output()


class _Batch:
    """A fork over items; an item that fails has an outcome like any other."""

    timeout_s: float | None = None

    def __init__(self, rule: BatchRule, rules: StepRules, place: Place, path: str, run_item: RunItem) -> None:
        self._rule = rule
        self._rules = rules
        self._place = place
        self.path = path
        self._run_item = run_item
        items = items_of(rule.items.resolve(place.scope)) if rule.entries is None else rule.entries
        self._count = len(items) if isinstance(items, Sized) else None
        self._items = iter(items)
        self._taken = 0
        self._running = 0
        self._ended = EndedItems(place.room, holds_items=not isinstance(items, list | tuple))
        self._first_failed: list[Outcome] = []  # in the order of items
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
    def is_held(self) -> bool:
        """Whether items that come one after the other, each only if those before went well, wait for an answer."""
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
        if failure is not None:  # a fault of ours, or of a node type
            self._fault, self.is_stopped = NodeFailed(failure), True
            return
        outcome: Outcome = value
        if is_question(outcome.failure):
            self._question = outcome.failure
            return
        self._ended.add(outcome)
        if outcome.failure is not None:
            self._failures += 1
            self._timed_out += outcome.failure.kind is Kind.TIMEOUT
            insort(self._first_failed, outcome, key=attrgetter("number"))
            del self._first_failed[ERRORS_TOLD:]
            self.is_stopped = self._rule.error_handling == "fail_fast" or self._is_too_much()

    def expire(self) -> None:
        raise AssertionError("a batch has no time of its own")

    def settle(self) -> dict[str, Any]:
        """Work out what became of all items, and give it in short; raise NodeFailed if nobody can tell."""
        if self._fault is not None:
            raise self._fault
        if self._question is not None and not self.is_stopped:
            raise NodeFailed(self._question)
        # Of a source handle that was stopped nobody knows what is left; to read it to its end may take for ever.
        self._count = max(self._count or 0, self._taken)
        self._values = batch_output(self._rule, self._rules.retry, self._ended, self._count, path=self.path)
        is_degraded = self._failures > 0 and not self._is_failed()
        errors = [outcome.noted(self._rules.redact) for outcome in self._first_failed]
        return batch_summary(self._values, errors, timed_out=self._timed_out, is_degraded=is_degraded)

    def output(self) -> Output:
        """Give what became of all items; raise NodeFailed if that is a failure."""
        if self._first_failed and self._is_failed():
            raise self._failed(self._first_failed[0], self._values)
        if self._failures:
            return Output(self._values, flags=frozenset({"degraded"}))
        return Output(self._values)

    def _is_failed(self) -> bool:
        return self.is_stopped or self._is_too_much() or (self._failures > 0 and self._failures == self._count)

    def _next(self) -> Any:
        try:
            item = next(self._items, _END)
        except Exception as error:  # noqa: BLE001  a source handle is a stranger's code
            self._fault, self.is_stopped = NodeFailed.of(error, self._rules.redact), True
            return _END
        if item is _END:
            self._count = self._taken  # whatever length it claimed
        return item

    def _one(self, index: int, item: Any) -> Program:
        meter = Meter(self._place.meter)
        output, failure = None, None
        try:
            if self._rule.entries is not None:
                entry, item = item, None
                item = self._resolved(entry)
            place = self._place.within({self._rule.alias: item, "__index__": index}, meter=meter)
            output = yield from self._run_item(place, f"{self.path}[{index}]")
            self._place.flags.update(output.flags)
        except NodeFailed as failed:
            failure = failed.failure
        values = None if output is None else output.values
        return Outcome(index, item, values, failure, max(meter.attempts, 1), meter.began_s, meter.ended_s)

    def _resolved(self, entry: Value) -> Any:
        try:
            return entry.resolve(self._place.scope)
        except GraphmillError as error:  # such as a name that is missing: of this item, and of no other
            raise NodeFailed.of(error, self._rules.redact) from error

    def _is_too_much(self) -> bool:
        """Tell whether more items have failed than may: a share is one of all items, or while nobody knows how many, of those ended."""
        most = self._rule.max_failures
        if not isinstance(most, float):
            return most is not None and self._failures > most
        ended = len(self._ended)
        if not self._failures or (self._count is None and ended < _SHARE_COUNTS_FROM):
            return False
        return self._failures / (self._count or ended) > most

    def _failed(self, first: Outcome, values: Mapping[str, Any]) -> NodeFailed:
        failure: Failure = first.failure  # type: ignore[assignment]
        if self._rule.error_handling == "fail_fast":
            message = f"item {first.number} failed: {failure.message}"
        else:
            message = (
                f"{self._failures} of {values['count']} items failed; the first, item {first.number}: {failure.message}"
            )
        return NodeFailed(replace(failure, message=message), attempts=first.attempts, values=values)


_SHARE_COUNTS_FROM = 20
_END = object()


def items_of(value: Any) -> Iterable[Any]:
    """Give the items that a batch's ``items`` stand for: an array, an array as JSON text, or anything that gives them one by one."""
    if isinstance(value, str):
        value = _array_in(value)
    if isinstance(value, list | tuple) or (
        isinstance(value, Iterable) and not isinstance(value, Mapping | bytes | set | frozenset)
    ):
        return value
    raise Permanent(f"a batch's items are an array, not {_said(value)}")


def _array_in(text: str) -> Any:
    if text.lstrip()[:1] != "[":
        raise Permanent(f"a batch's items are an array, or one as JSON text; this text is none: {cut(repr(text), 80)}")
    try:
        return json.loads(text)
    except ValueError as error:
        raise Permanent(f"a batch's items are not an array as JSON text: {error}") from error


def _said(value: Any) -> str:
    return "null" if value is None else type(value).__name__


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
