"""What runs, items and steps have used of models: a line or two for people, and as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphmill.core.usage import NO_USAGE, RunUsage, Usage, cost_text, lost_text
from graphmill.report.text import align_columns, count_text, one_line, scaled

_MODEL_CHARS = 50
_UNNAMED = "other"
_TOKEN_PARTS = {"cached_tokens": "cached", "reasoning_tokens": "reasoning", "image_tokens": "image"}


def usage_lines(used: Mapping[str, Usage]) -> list[str]:
    """Say it, also by role and model if there are several: '  120 requests · 48,000 tokens in, 9,600 out'."""
    if not used:
        return []
    lines = [f"  {_text(sum(used.values(), NO_USAGE))}"]
    rows = []
    if len(used) > 1:
        most_first = sorted(used.items(), key=lambda entry: (-entry[1].tokens, -entry[1].requests, entry[0]))
        rows = [(one_line(name or _UNNAMED, _MODEL_CHARS), _text(usage)) for name, usage in most_first]
    if isinstance(used, RunUsage):
        rows += [(one_line(f"as {name}", _MODEL_CHARS), _text(usage)) for name, usage in sorted(used.roles.items())]
    lines += [f"    {line}" for line in align_columns(rows)]
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
    return " · ".join(filter(None, [_tokens_text(usage), cost_text(cost_nano or 0, usage.get("unpriced", 0))]))


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


def _text(usage: Usage) -> str:
    calls = count_text(usage.requests, "request")
    if usage.reused:
        calls += f", {count_text(usage.reused, 'answer')} reused"
    tokens_in = f"{count_text(usage.input_tokens, 'token')} in{_part(usage.cached_tokens, 'cached')}"
    tokens_out = f"{usage.output_tokens:,} out{_part(usage.reasoning_tokens, 'reasoning')}"
    return " · ".join(
        filter(
            None,
            [
                calls,
                f"{tokens_in}, {tokens_out}",
                cost_text(usage.cost_nano, usage.unpriced),
                lost_text(usage.lost_nano),
            ],
        )
    )


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
