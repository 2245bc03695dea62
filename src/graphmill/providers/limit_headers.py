"""What the headers of an answer say of rate limits, in seconds and counts."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from graphmill.core.rate_limits import RateLimit, RateLimits

_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_DURATION = re.compile(r"(?:(?P<h>[0-9.]+)h)?(?:(?P<m>[0-9.]+)m(?!s))?(?:(?P<s>[0-9.]+)s)?(?:(?P<ms>[0-9.]+)ms)?")
_Names = Mapping[str, tuple[str, ...]]
_PARTS = ("limit", "remaining", "reset")
_OPENAI: _Names = {of: tuple(f"x-ratelimit-{part}-{of}" for part in _PARTS) for of in ("requests", "tokens")}
_ANTHROPIC: _Names = {
    of: tuple(f"anthropic-ratelimit-{of.replace('_', '-')}-{part}" for part in _PARTS)
    for of in ("requests", "tokens", "input_tokens", "output_tokens")
}
_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def openai_limits(headers: Mapping[str, str]) -> RateLimits | None:
    """Read ``x-ratelimit-*``, whose resets are durations."""
    return _limits(headers, _OPENAI, duration_s)


def anthropic_limits(headers: Mapping[str, str]) -> RateLimits | None:
    """Read ``anthropic-ratelimit-*``, whose resets are moments."""
    return _limits(headers, _ANTHROPIC, lambda text: _until_s(_moment(text), headers))


def plain_limits(headers: Mapping[str, str]) -> RateLimits | None:
    """Read the wait that any server may ask for."""
    return _limits(headers, {}, duration_s)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Read ``retry-after-ms``, or ``retry-after`` as seconds or as a date; a date is compared with the server's own clock."""
    if (milliseconds := number(headers.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "").strip()
    seconds = number(text)
    return _until_s(_date(text), headers) if seconds is None else seconds


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
    return None if any(value is None for value, _ in parts) else math.fsum((value or 0.0) * unit for value, unit in parts)


def number(text: str) -> float | None:
    """Read a plain number that is not negative."""
    return float(text) if _NUMBER.fullmatch(text.strip()) else None


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


def _until_s(moment: float | None, headers: Mapping[str, str]) -> float | None:
    if moment is None:
        return None
    now = _date(headers.get("date", ""))
    return max(0.0, moment - (time.time() if now is None else now))


def _date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None


def _moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
