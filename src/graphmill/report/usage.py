"""What a run has used of models: in a line or two for people, and as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphmill.core.usage import NO_USAGE, Usage
from graphmill.report.text import columns, counted, shown

_MODEL_CHARS = 50
_UNNAMED = "other"


def usage_lines(used: Mapping[str, Usage]) -> list[str]:
    """Say it, and of each model if there are several: '  120 requests, 30 answers reused · 48,000 tokens in, 9,600 out'."""
    if not used:
        return []
    lines = [_text(sum(used.values(), NO_USAGE))]
    if len(used) > 1:
        most_first = sorted(used.items(), key=lambda entry: (-entry[1].tokens, -entry[1].requests, entry[0]))
        lines += [
            f"  {line}"
            for line in columns([(shown(name or _UNNAMED, _MODEL_CHARS), _text(usage)) for name, usage in most_first])
        ]
    return [f"  {line}" for line in lines]


def usage_parts(used: Mapping[str, Usage]) -> tuple[str, str]:
    """Say it in a few words, for a line that has more to tell: '120 requests', '57.6k tokens'; empty if no model was asked."""
    usage = sum(used.values(), NO_USAGE)
    return (counted(usage.requests, "request"), f"{_short(usage.tokens)} tokens") if used else ("", "")


def usage_record(used: Mapping[str, Usage]) -> dict[str, Any] | None:
    """Give it as data: the counts of all, and in ``models`` those of each; None if no model was asked."""
    if not used:
        return None
    total = sum(used.values(), NO_USAGE)
    return {**total.counts, "models": {name or _UNNAMED: usage.counts for name, usage in sorted(used.items())}}


def _text(usage: Usage) -> str:
    asked = [counted(usage.requests, "request"), f"{counted(usage.reused, 'answer')} reused" if usage.reused else ""]
    given = f"{counted(usage.input_tokens, 'token')} in{_among(usage.cached_tokens, 'cached')}"
    made = f"{usage.output_tokens:,} out{_among(usage.reasoning_tokens, 'reasoning')}"
    return f"{', '.join(filter(None, asked))} · {given}, {made}"


def _among(count: int, word: str) -> str:
    return f" ({count:,} {word})" if count else ""


def _short(count: int) -> str:
    """Write a large count in short: '950', '57.6k', '1.2M'."""
    value, unit = float(count), ""
    for larger in ("k", "M", "G"):
        if round(value, 1) < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:,.1f}{unit}" if unit else f"{count}"
