"""What runs, items and steps have used of models: a line or two for people, and as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphmill.core.usage import NO_USAGE, RunUsage, Usage, cost_text, lost_text, money_text, to_nano
from graphmill.report.text import align_columns, count_text, one_line, scaled

_NAME_CHARS = 50
_CALLERS_SHOWN = 10
_UNNAMED = "other"
_TOKEN_PARTS = {"cached_tokens": "cached", "reasoning_tokens": "reasoning", "image_tokens": "image"}


def usage_lines(used: Mapping[str, Usage], budget_usd: float | None = None) -> list[str]:
    """Say it: '  120 requests · 48,000 tokens in, 9,600 out · $0.31 of $5.00'; then who called which model."""
    if not used:
        return []
    lines = [f"  {_text(sum(used.values(), NO_USAGE), budget_usd)}"]
    callers = used.callers if isinstance(used, RunUsage) else {("", model): usage for model, usage in used.items()}
    callers = {who: usage for who, usage in callers.items() if usage.requests or usage.reused or usage.tokens}
    if len(callers) <= 1:
        return lines
    most_first = sorted(
        callers.items(), key=lambda each: (-each[1].cost_nano, -each[1].tokens, -each[1].requests, each[0])
    )
    rows: list[tuple[str, ...]] = [
        (one_line(who, _NAME_CHARS), one_line(model or _UNNAMED, _NAME_CHARS), _text(usage))
        for (who, model), usage in most_first[:_CALLERS_SHOWN]
    ]
    if not any(row[0] for row in rows):
        rows = [row[1:] for row in rows]
    lines += [f"    {line}" for line in align_columns(rows)]
    if len(callers) > _CALLERS_SHOWN:
        lines.append(f"    ...and {count_text(len(callers) - _CALLERS_SHOWN, 'more caller')}: --json lists all")
    return lines


def usage_parts(used: Mapping[str, Usage]) -> tuple[str, str]:
    """Return short texts for a progress line: '120 requests', '57.6k tokens'; empty if no model was called."""
    if not used:
        return "", ""
    usage = sum(used.values(), NO_USAGE)
    return count_text(usage.requests, "request"), f"{_short(usage.tokens)} tokens"


def usage_text(usage: Mapping[str, int] | None, cost_nano: int | None) -> str:
    """Say what was used: '1,200 tokens (800 cached, 300 reasoning) · $0.0031'; empty if nothing was metered."""
    usage = usage or {}
    cost = cost_text(cost_nano or 0, usage.get("unpriced", 0))
    return " · ".join(filter(None, [_tokens_text(usage), cost, _saved_text(usage.get("saved_nano", 0))]))


def _tokens_text(usage: Mapping[str, int]) -> str:
    tokens = usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
    if not tokens:
        return ""
    parts = [f"{usage[name]:,} {word}" for name, word in _TOKEN_PARTS.items() if usage.get(name)]
    if not parts:
        return f"{tokens:,} tokens"
    return f"{tokens:,} tokens ({', '.join(parts)})"


def usage_record(used: Mapping[str, Usage]) -> dict[str, Any] | None:
    """Return it as data: totals, and the same by ``models``, ``roles`` and ``nodes``; None if no model was called."""
    if not used:
        return None
    total = sum(used.values(), NO_USAGE)
    record: dict[str, Any] = {**total.to_json(), "models": _by_name(used)}
    if isinstance(used, RunUsage):
        record |= {"roles": _by_name(used.roles), "nodes": _by_name(used.nodes)}
    return record


def _by_name(used: Mapping[str, Usage]) -> dict[str, Any]:
    return {name or _UNNAMED: usage.to_json() for name, usage in sorted(used.items())}


def _text(usage: Usage, budget_usd: float | None = None) -> str:
    calls = count_text(usage.requests, "request")
    if usage.reused:
        calls += f", {count_text(usage.reused, 'answer')} reused"
    tokens_in = f"{count_text(usage.input_tokens, 'token')} in{_part(usage.cached_tokens, 'cached')}"
    tokens_out = f"{usage.output_tokens:,} out{_part(usage.reasoning_tokens, 'reasoning')}"
    unknown = 0 if usage.lost_nano else usage.unpriced  # those of lost answers are said below
    cost = cost_text(usage.cost_nano, unknown)
    if budget_usd is not None:
        cost = f"{money_text(usage.cost_nano)} of {money_text(to_nano(budget_usd))}"
        if unknown:
            cost += f" + {cost_text(0, unknown)}"
    if usage.reported:
        cost += f" (the provider's own figure for {count_text(usage.reported, 'request')})"
    parts = calls, f"{tokens_in}, {tokens_out}", cost, _saved_text(usage.saved_nano), lost_text(usage.lost_nano)
    return " · ".join(filter(None, parts))


def _saved_text(saved_nano: int) -> str:
    return f"saved {money_text(saved_nano)}" if saved_nano else ""


def _part(count: int, word: str) -> str:
    if count:
        return f" ({count:,} {word})"
    return ""


def _short(count: int) -> str:
    """Write a large count: '950', '57.6k', '1.2M'."""
    if count < 1000:
        return str(count)
    value, unit = scaled(count, ("k", "M", "G"))
    return f"{value:,.1f}{unit}"
