"""What the headers of an answer say of rate limits, in seconds and counts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from graphmill.core.rate_limits import RateLimit, RateLimits
from graphmill.core.retry_after import number, retry_after_s, until_s

_DURATION = re.compile(r"(?:(?P<h>[0-9.]+)h)?(?:(?P<m>[0-9.]+)m(?!s))?(?:(?P<s>[0-9.]+)s)?(?:(?P<ms>[0-9.]+)ms)?")
_Names = Mapping[str, tuple[str, ...]]
_PARTS = ("limit", "remaining", "reset")
_OPENAI: _Names = {of: tuple(f"x-ratelimit-{part}-{of}" for part in _PARTS) for of in ("requests", "tokens")}
_PLAIN: _Names = {
    "requests": ("", "x-ratelimit-remaining", "x-ratelimit-reset")
}  # of how long a time its limit is, is not said
_ANTHROPIC: _Names = {
    of: tuple(f"anthropic-ratelimit-{of.replace('_', '-')}-{part}" for part in _PARTS)
    for of in ("requests", "tokens", "input_tokens", "output_tokens")
}
_FIRST_MOMENT_S = 1e9  # more seconds than this is no duration, but a time of this century
_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def openai_limits(headers: Mapping[str, str]) -> RateLimits | None:
    """Read ``x-ratelimit-*``, whose resets are durations; a server that names no unit counts requests, and may tell a moment."""
    if "x-ratelimit-remaining" in headers and "x-ratelimit-remaining-requests" not in headers:
        return _limits(headers, _PLAIN, lambda text: _reset_s(text, headers))
    return _limits(headers, _OPENAI, duration_s)


def anthropic_limits(headers: Mapping[str, str]) -> RateLimits | None:
    """Read ``anthropic-ratelimit-*``, whose resets are moments."""
    return _limits(headers, _ANTHROPIC, lambda text: until_s(_moment(text), headers))


def plain_limits(headers: Mapping[str, str]) -> RateLimits | None:
    """Read the wait that any server may ask for."""
    return _limits(headers, {}, duration_s)


@lru_cache(maxsize=1024)
def duration_s(text: str) -> float | None:
    """Read ``6m0s``, ``1h2m``, ``20ms``, or plain seconds."""
    text = text.strip()
    if (seconds := number(text)) is not None:
        return seconds
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        return None
    parts = [(number(value), _UNITS_S[unit]) for unit, value in found.groupdict().items() if value]
    return (
        None if any(value is None for value, _ in parts) else math.fsum((value or 0.0) * unit for value, unit in parts)
    )


def _limits(headers: Mapping[str, str], names: _Names, reset_s: Callable[[str], float | None]) -> RateLimits | None:
    found: dict[str, Any] = {}
    for of, (allowed, remaining, reset) in names.items():
        if allowed in headers or remaining in headers:
            found[of] = RateLimit(
                allowed=_count(headers.get(allowed, "")),
                remaining=_count(headers.get(remaining, "")),
                reset_s=reset_s(headers.get(reset, "")),
            )
    wait_s = retry_after_s(headers) if "retry-after" in headers or "retry-after-ms" in headers else None
    return RateLimits(**found, retry_after_s=wait_s) if found or wait_s is not None else None


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _reset_s(text: str, headers: Mapping[str, str]) -> float | None:
    """Read a reset that is a duration, or a moment in seconds or milliseconds."""
    seconds = duration_s(text)
    if seconds is None or seconds < _FIRST_MOMENT_S:
        return seconds
    return until_s(seconds if seconds < 1000 * _FIRST_MOMENT_S else seconds / 1000, headers)


def _moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
