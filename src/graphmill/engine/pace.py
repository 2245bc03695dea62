"""Pace: how many attempts what they depend on is known to bear, at once and in a minute; nothing starts that would be one too many."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is known of it; None is no limit. Tokens are of both directions."""

    concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class Pace:
    """Spreads starts evenly, so that no minute, wherever it begins, holds more than are allowed.

    The tokens of an attempt are reserved as they are estimated, and settled when it has ended.
    """

    __slots__ = ("_request_s", "_requests_at", "_token_s", "_tokens_at")

    def __init__(self, limits: Limits) -> None:
        self._request_s = _MINUTE_S / (limits.requests_per_minute or inf)
        self._token_s = _MINUTE_S / (limits.tokens_per_minute or inf)
        self._requests_at = 0.0
        self._tokens_at = 0.0

    @property
    def opens_at(self) -> float:
        """The time from which on the next may start."""
        return max(self._requests_at, self._tokens_at)

    def started(self, now: float, tokens: int) -> float:
        """Note a start, and how many tokens it may take; tell by what it is known."""
        self._requests_at = max(now, self._requests_at) + self._request_s
        self._tokens_at = max(now, self._tokens_at) + tokens * self._token_s
        return self._requests_at

    def settled(self, reserved: int, used: int) -> None:
        """Take back what an attempt has not used of its tokens, or add what it has used beyond."""
        self._tokens_at += (used - reserved) * self._token_s

    def returned(self, start: float, reserved: int) -> None:
        """Take back all of an attempt that has asked for nothing; its place among the requests only if nobody has started behind it."""
        self.settled(reserved, 0)
        if start == self._requests_at:
            self._requests_at -= self._request_s
