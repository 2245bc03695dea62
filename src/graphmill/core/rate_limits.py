"""Rate limits: what the headers of a provider's answer say of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """One limit: how much it allows, how much of that is left, and in how many seconds all of it is back; None where it is not said."""

    allowed: int | None = None
    remaining: int | None = None
    reset_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """All that one answer says, of a minute; ``tokens`` are of both directions. ``retry_after_s`` is the wait it asks for."""

    requests: RateLimit | None = None
    tokens: RateLimit | None = None
    input_tokens: RateLimit | None = None
    output_tokens: RateLimit | None = None
    retry_after_s: float | None = None
