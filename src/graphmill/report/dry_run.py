"""A dry run: what a batch would do, as text and as data, without sending anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphmill.core.usage import money_text, to_usd
from graphmill.graph.models.estimate import PlannedCall, Range
from graphmill.report.text import count_text, one_line

SHOWN_ITEMS = 3
LOOKED_AT = 100
_MESSAGE_CHARS = 300
_CALLS_SHOWN = 6
_WHY = "a rough estimate from the first items: 4 characters a token, answers of 20 tokens to their limit, else to 1,000"


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What a batch would do: how many jobs, the planned calls of the first items, and what limits it.

    ``jobs`` counts items and their samples; None if unknown. ``items`` holds an id and the calls of each item looked
    at.
    """

    title: str
    details: tuple[str, ...]
    jobs: int | None
    limits: tuple[str, ...]
    budget_nano: int | None
    items: Sequence[tuple[str, Sequence[PlannedCall]]]

    @property
    def calls(self) -> list[PlannedCall]:
        """All planned calls of the items looked at."""
        return [call for _, calls in self.items for call in calls]

    def total(self, part: str) -> Range:
        """Return an estimate for all jobs: the mean of the items looked at, times their number."""
        found = Range()
        for call in self.calls:
            found = found + (getattr(call, part) or Range())
        count = (self.jobs or len(self.items)) / max(1, len(self.items))
        return found.times(Range(count, count))

    @property
    def unpriced(self) -> list[str]:
        """The models without a price."""
        return list(dict.fromkeys(call.model for call in self.calls if call.cost_nano is None))

    def lines(self) -> Iterator[str]:
        """Write it as text."""
        yield " · ".join(["dry run, nothing is sent", self.title, *self.details])
        yield f"limits   {' · '.join(self.limits)}"
        if self.calls:
            yield f"calls    {_numbers(self.total('calls'))}"
            yield f"tokens   {_numbers(self.total('input_tokens'))} in, {_numbers(self.total('output_tokens'))} out"
            yield f"cost     {self._cost_text()}"
            if self.budget_nano is not None and (cost := self.total("cost_nano")).high > self.budget_nano:
                yield f"         the run {'would' if cost.low > self.budget_nano else 'may'} pause at its budget"
            yield f"         ({_WHY})"
        else:
            yield f"calls    none: {'this workflow calls no model' if self.items else 'there are no items'}"
        for name, calls in self.items[:SHOWN_ITEMS]:
            yield ""
            yield from _item_lines(name, calls)

    def _cost_text(self) -> str:
        unpriced = self.unpriced
        cost = self.total("cost_nano")
        known = f"{money_text(int(cost.low))} to {money_text(int(cost.high))}"
        if not unpriced:
            return known
        missing = f"no price is known for {', '.join(unpriced)}"
        return missing if len(unpriced) == len({call.model for call in self.calls}) else f"{known}, and {missing}"

    def to_json(self) -> dict[str, Any]:
        """Return it as data."""
        cost = self.total("cost_nano")
        return {
            "dry_run": True,
            "jobs": self.jobs,
            "models": list(dict.fromkeys(call.model for call in self.calls)),
            "unpriced": self.unpriced,
            "calls": list(self.total("calls")),
            "input_tokens": list(self.total("input_tokens")),
            "output_tokens": list(self.total("output_tokens")),
            "cost_usd": [to_usd(int(cost.low)), to_usd(int(cost.high))],
            "items": [{"id": name, "calls": [_call_data(call) for call in calls]} for name, calls in self.items],
        }


def _numbers(found: Range) -> str:
    low, high = round(found.low), round(found.high)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _item_lines(name: str, calls: Sequence[PlannedCall]) -> Iterator[str]:
    yield f"item {one_line(name, 80)}"
    for call in calls[:_CALLS_SHOWN]:
        who = call.role or call.path
        times = "" if call.calls == Range(1, 1) else f" · {_numbers(call.calls)} calls"
        open_text = " · template shown: it depends on earlier outputs" if call.is_open else ""
        yield f"  {one_line(who, 40)}  {call.model}{times}{open_text}"
        for message in call.messages:
            yield f"    {message.role:<8} {one_line(message.text, _MESSAGE_CHARS)}"
    if len(calls) > _CALLS_SHOWN:
        yield f"  ...and {count_text(len(calls) - _CALLS_SHOWN, 'more node')}"


def _call_data(call: PlannedCall) -> dict[str, Any]:
    return {
        "path": call.path,
        "role": call.role,
        "model": call.model,
        "messages": [{"role": each.role, "content": each.text} for each in call.messages],
        "is_open": call.is_open,
        "calls": list(call.calls),
        "input_tokens": list(call.input_tokens),
        "output_tokens": list(call.output_tokens),
        "cost_usd": None if call.cost_nano is None else [to_usd(int(nano)) for nano in call.cost_nano],
    }
