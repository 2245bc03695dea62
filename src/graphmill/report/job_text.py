"""One job in a line: how it ended, after how many attempts, how long it took, what it cost."""

from __future__ import annotations

from collections.abc import Mapping

from graphmill.core.result import Result
from graphmill.report.text import counted, failure_text, seconds, shown_message

_FLAGS = ("degraded", "partial")
_MESSAGE_CHARS = 300
_AMONG = (("cached_tokens", "cached"), ("reasoning_tokens", "reasoning"), ("image_tokens", "image"))


def standing(result: Result) -> str:
    """Give a job's status, and the flags that its nodes have set: 'succeeded, degraded'."""
    return ", ".join([str(result.status), *(flag for flag in _FLAGS if result.metadata.get(flag))])


def tries(count: int) -> str:
    """Say how many attempts there were."""
    return counted(count, "attempt")


def usage_text(usage: Mapping[str, int] | None, cost: float | None) -> str:
    """Say what was used: '1,200 tokens (800 cached, 300 reasoning) · $0.0031'; empty where nothing was metered."""
    return " · ".join(filter(None, [_tokens_text(usage or {}), _cost_text(cost)]))


def _cost_text(cost: float | None) -> str:
    return "" if not cost else f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"


def _tokens_text(usage: Mapping[str, int]) -> str:
    tokens = usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
    among = ", ".join(f"{count:,} {word}" for name, word in _AMONG if (count := usage.get(name, 0)))
    return "" if not tokens else f"{tokens:,} tokens ({among})" if among else f"{tokens:,} tokens"


def job_lines(result: Result) -> list[str]:
    """Say how a job ended and, if it failed, why."""
    told = [standing(result), seconds(result.duration_s), _cost_text(result.cost)]
    if result.attempts > 1:
        told.insert(1, tries(result.attempts))
    lines = [" · ".join(filter(None, told))]
    if result.error is not None:
        lines.append(f"  {result.error.kind}: {shown_message(failure_text(result.error), _MESSAGE_CHARS)}")
    return lines
