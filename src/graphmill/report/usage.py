"""What a run has used of models: a line or two for people, and as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphmill.core.money import cost_text, lost_text
from graphmill.core.usage import NO_USAGE, Usage
from graphmill.report.text import align_columns, count_text, one_line, scaled

_MODEL_CHARS = 50
_UNNAMED = "other"


def usage_lines(used: Mapping[str, Usage]) -> list[str]:
    """Say it, by model too if there are several: '  120 requests, 30 answers reused · 48,000 tokens in, 9,600 out'."""
    if not used:
        return []
    lines = [f"  {_text(sum(used.values(), NO_USAGE))}"]
    if len(used) > 1:
        most_first = sorted(used.items(), key=lambda entry: (-entry[1].tokens, -entry[1].requests, entry[0]))
        rows = [(one_line(name or _UNNAMED, _MODEL_CHARS), _text(usage)) for name, usage in most_first]
        lines += [f"    {line}" for line in align_columns(rows)]
    return lines


def usage_parts(used: Mapping[str, Usage]) -> tuple[str, str]:
    """Return short texts for a progress line: '120 requests', '57.6k tokens'; empty if no model was called."""
    if not used:
        return "", ""
    usage = sum(used.values(), NO_USAGE)
    return count_text(usage.requests, "request"), f"{_short(usage.tokens)} tokens"


def usage_record(used: Mapping[str, Usage]) -> dict[str, Any] | None:
    """Return it as data: totals, and ``models`` with the counts of each; None if no model was called."""
    if not used:
        return None
    total = sum(used.values(), NO_USAGE)
    return {**total.to_json(), "models": {name or _UNNAMED: usage.to_json() for name, usage in sorted(used.items())}}


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
