"""What response headers say of waits and rate limits, in seconds and counts; header names are in lower case."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from graphmill.core.usage import RateLimit, RateLimits

_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_DURATION = re.compile(r"(?:(?P<h>[0-9.]+)h)?(?:(?P<m>[0-9.]+)m(?!s))?(?:(?P<s>[0-9.]+)s)?(?:(?P<ms>[0-9.]+)ms)?")
_Names = Mapping[str, tuple[str, ...]]
_PARTS = ("limit", "remaining", "reset")
_OPENAI: _Names = {of: tuple(f"x-ratelimit-{part}-{of}" for part in _PARTS) for of in ("requests", "tokens")}
_PLAIN: _Names = {"requests": ("", "x-ratelimit-remaining", "x-ratelimit-reset")}  # its limit is for an unknown period
_ANTHROPIC: _Names = {
    of: tuple(f"anthropic-ratelimit-{of.replace('_', '-')}-{part}" for part in _PARTS)
    for of in ("requests", "tokens", "input_tokens", "output_tokens")
}
_FIRST_MOMENT_S = 1e9  # more seconds than this are not a duration but a Unix time
_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Read ``retry-after-ms``, or ``retry-after`` as seconds or as a date."""
    if (milliseconds := _parse_number(headers.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "").strip()
    seconds = _parse_number(text)
    if text and seconds is None:
        return _seconds_until(_parse_date(text), headers)
    return seconds


def read_openai_limits(headers: Mapping[str, str]) -> RateLimits | None:
    """Read ``x-ratelimit-*``: resets are durations; without a unit it counts requests, and resets may be moments."""
    if "x-ratelimit-remaining" in headers and "x-ratelimit-remaining-requests" not in headers:
        return _read_limits(headers, _PLAIN, lambda text: _parse_reset(text, headers))
    return _read_limits(headers, _OPENAI, parse_duration)


def read_anthropic_limits(headers: Mapping[str, str]) -> RateLimits | None:
    """Read ``anthropic-ratelimit-*``, whose resets are moments."""
    return _read_limits(headers, _ANTHROPIC, lambda text: _seconds_until(_parse_moment(text), headers))


def read_plain_limits(headers: Mapping[str, str]) -> RateLimits | None:
    """Read the wait that any server may ask for, and nothing else."""
    return _read_limits(headers, {}, parse_duration)


@lru_cache(maxsize=1024)
def parse_duration(text: str) -> float | None:
    """Read ``6m0s``, ``1h2m``, ``20ms``, or plain seconds."""
    text = text.strip()
    if (seconds := _parse_number(text)) is not None:
        return seconds
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        return None
    parts = []
    for unit, value in found.groupdict().items():
        amount = _parse_number(value or "0")
        if amount is None:
            return None
        parts.append(amount * _UNITS_S[unit])
    return math.fsum(parts)


def _read_limits(
    headers: Mapping[str, str], names: _Names, reset_s: Callable[[str], float | None]
) -> RateLimits | None:
    found: dict[str, Any] = {}
    for of, (allowed, remaining, reset) in names.items():
        if allowed in headers or remaining in headers:
            found[of] = RateLimit(
                allowed=_parse_count(headers.get(allowed, "")),
                remaining=_parse_count(headers.get(remaining, "")),
                reset_s=reset_s(headers.get(reset, "")),
            )
    wait_s = read_retry_after(headers)
    if not found and wait_s is None:
        return None
    return RateLimits(**found, retry_after_s=wait_s)


def _parse_count(text: str) -> int | None:
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    return None


def _parse_reset(text: str, headers: Mapping[str, str]) -> float | None:
    """Read a reset that is a duration, or a moment in seconds or milliseconds."""
    seconds = parse_duration(text)
    if seconds is None or seconds < _FIRST_MOMENT_S:
        return seconds
    if seconds >= 1000 * _FIRST_MOMENT_S:
        seconds /= 1000
    return _seconds_until(seconds, headers)


def _parse_moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _seconds_until(moment: float | None, headers: Mapping[str, str]) -> float | None:
    """Seconds until a moment, by the server's own clock if it sent its date."""
    if moment is None:
        return None
    now = _parse_date(headers.get("date", ""))
    if now is None:
        now = time.time()
    return max(0.0, moment - now)


def _parse_number(text: str) -> float | None:
    """Read a plain number that is not negative."""
    if _NUMBER.fullmatch(text.strip()):
        return float(text)
    return None


def _parse_date(text: str) -> float | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  it imports half of a mail program

    try:
        seconds = parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
    if math.isfinite(seconds):
        return seconds
    return None
