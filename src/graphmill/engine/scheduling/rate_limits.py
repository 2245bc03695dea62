"""Rate limits: no minute, wherever it begins, holds more requests or tokens than are allowed.

All runs of a process that ask with the same key share one account. Processes do not coordinate: two of them on one key
adapt through refusals, their retry-after, and the adaptive limit.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from threading import Lock
from typing import Protocol

from graphmill.core.usage import RateLimit, RateLimits

MINUTE_S = 60.6  # a hundredth more: the way to the server takes one call longer than the next
CATCH_UP_S = 0.1  # what a start may be ahead of its time, because the one before it came late
_MAX_CLOSED_S = 120.0  # for what is back later than this, such as a day's share, wait for the server's own refusal
_SHORT_S = 30.0
_SAME_CLOCK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The known limits of a model or server; None is no limit. Tokens count in both directions.

    ``account`` identifies who is limited without revealing the key; everything with the same account shares the limits.
    """

    concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    account: str = ""


class LimitsOwner(Protocol):
    """Something with limits of its own."""

    @property
    def account(self) -> str:
        """Identifies it without revealing its key."""


class Reservation:
    """What one start has reserved: its tokens count as used until they are settled."""

    __slots__ = ("at", "is_counted", "requests_at", "tokens", "unit_s")

    def __init__(self, at: float, tokens: int, unit_s: float, requests_at: float) -> None:
        self.at = at
        self.tokens = tokens
        self.unit_s = unit_s
        self.requests_at = requests_at  # when the next request may start, if this one is made
        self.is_counted = False  # among those of the last minute


class RateLimiter:
    """Spreads starts evenly over time; safe for threads.

    The tokens of an attempt are reserved by estimate, and settled when it has ended. Made by ``for_account``, it shares
    its account with the other limiters of the process; otherwise the account is its own.
    """

    __slots__ = ("_account", "_open")

    def __init__(self, limits: Limits, account: _Account | None = None) -> None:
        self._account = account or _Account(limits)
        self._open: set[Reservation] = set()

    @classmethod
    def for_account(cls, limits: Limits, clock: Callable[[], float]) -> RateLimiter:
        """Make a limiter that shares its account with the process; one with its own clock shares nothing."""
        if not limits.account or abs(clock() - time.monotonic()) > _SAME_CLOCK_S:
            return cls(limits)
        with _accounts_lock:
            account = _accounts.setdefault(limits.account, _Account(limits))
            account.set(limits)
        return cls(limits, account)

    @property
    def counts_tokens(self) -> bool:
        """Whether the tokens of an attempt matter."""
        tokens = self._account.tokens
        return tokens.per_minute is not None or tokens.allowed is not None

    def opens_at(self, tokens: int = 0) -> float:
        """Return when the next attempt may start, if it takes so many tokens."""
        account = self._account
        with account.lock:
            at = max(account.requests.opens_at(1), account.tokens.opens_at(tokens))
            return max(at, account.room_at(tokens)) if account.minute else at

    def limit_text(self, tokens: int) -> str:
        """Name the limit for which the next attempt has to wait, if it takes so many tokens."""
        account = self._account
        with account.lock:
            tokens_at = max(account.tokens.opens_at(tokens), account.room_at(tokens))
            if tokens_at > account.requests.opens_at(1):
                word, most = "tokens", account.tokens.most
            else:
                word, most = "requests", account.requests.most
        return f"its limit of {word}" if most is None else f"its limit of {most:,} {word} a minute"

    def reserve(self, now: float, tokens: int) -> Reservation:
        """Reserve a start and the tokens it may take."""
        account = self._account
        with account.lock:
            account.requests.take(now, 1)
            made = Reservation(now, tokens, account.tokens.take(now, tokens), account.requests.at)
            if account.tokens.per_minute is not None:
                account.count(made, now)
        self._open.add(made)
        return made

    def settle(self, reserved: Reservation, used: int) -> None:
        """Return the tokens that an attempt reserved and did not use, or take those it used beyond them."""
        self._open.discard(reserved)
        with self._account.lock:
            self._account.settle(reserved, used)

    def cancel(self, reserved: Reservation) -> None:
        """Return all that an attempt reserved which sent nothing; its request only if none was started after it."""
        self._open.discard(reserved)
        with self._account.lock:
            self._account.settle(reserved, 0)
            self._account.requests.put_back(reserved.requests_at)

    def close(self) -> None:
        """Settle open reservations as reserved: the account outlives the run."""
        for reserved in list(self._open):
            self.settle(reserved, reserved.tokens)

    def learn(self, stated: RateLimits, now: float, reserved: Reservation | None = None) -> None:
        """Apply what the server says is left; ``reserved`` belongs to the call it answered."""
        account = self._account
        with account.lock:
            if stated.requests is not None:
                account.requests.learn(stated.requests, now, 1)
            if (tokens := _tightest(stated)) is not None:
                account.tokens.learn(tokens, now, 0 if reserved is None else reserved.tokens)


class _Track:
    """One limited thing: as configured, and as the server's last answer has stated."""

    __slots__ = ("allowed", "at", "back_at", "left", "pending", "per_minute")

    def __init__(self, per_minute: int | None) -> None:
        self.per_minute = per_minute
        self.at = 0.0
        self.pending = 0  # taken by those under way
        self.allowed: int | None = None
        self.left: float = inf
        self.back_at = 0.0

    @property
    def unit_s(self) -> float:
        """The time that one takes: as configured, or, once half of what the server allows is gone, as stated."""
        allowed = self.per_minute or inf
        if self.allowed is not None and self.left < self.allowed / 2:
            allowed = min(allowed, self.allowed)
        return MINUTE_S / allowed

    @property
    def most(self) -> int | None:
        """How many a minute it is, as configured or as stated, whichever is less."""
        return min((each for each in (self.per_minute, self.allowed) if each is not None), default=None)

    def opens_at(self, need: int) -> float:
        if self.left < min(need, self.allowed or need):
            return max(self.at, self.back_at)
        return self.at

    def take(self, now: float, count: int) -> float:
        if now >= self.back_at:
            self.left = inf
        self.left -= count
        self.pending += count
        unit_s = self.unit_s
        self.at = max(now - CATCH_UP_S, self.at) + count * unit_s
        return unit_s

    def put_back(self, at: float) -> None:
        """Take back one that was not used, if it is the last: later starts have waited for it already."""
        self.left += 1
        if at == self.at:
            self.at -= self.unit_s

    def learn(self, stated: RateLimit, now: float, own: int) -> None:
        """Apply what the server says; it may not have counted those under way yet."""
        if stated.allowed:
            self.allowed = None if _is_short(stated, stated.allowed) else stated.allowed
        if stated.remaining is not None and stated.reset_s is not None and stated.reset_s <= _MAX_CLOSED_S:
            self.left = stated.remaining - max(0, self.pending - own)
            self.back_at = now + stated.reset_s


class _Account:
    """The state that the limiters of one account share; they hold its lock for each call."""

    __slots__ = ("lock", "minute", "requests", "tokens", "used")

    def __init__(self, limits: Limits) -> None:
        self.lock = Lock()
        self.requests = _Track(limits.requests_per_minute)
        self.tokens = _Track(limits.tokens_per_minute)
        self.minute: deque[Reservation] = deque()  # those whose tokens count now
        self.used = 0

    def set(self, limits: Limits) -> None:
        self.requests.per_minute, self.tokens.per_minute = limits.requests_per_minute, limits.tokens_per_minute

    def settle(self, reserved: Reservation, used: int) -> None:
        self.requests.pending -= 1
        self.tokens.pending -= reserved.tokens
        self.tokens.at += (used - reserved.tokens) * reserved.unit_s
        if reserved.is_counted:
            self.used += used - reserved.tokens
            reserved.tokens = used

    def count(self, made: Reservation, now: float) -> None:
        self._forget(now)
        self.minute.append(made)
        self.used += made.tokens
        made.is_counted = True

    def room_at(self, tokens: int) -> float:
        """Return when so many tokens more fit into a minute, however unlike each other the calls in it are."""
        most = self.tokens.per_minute
        if most is None:
            return 0.0
        over, at = self.used + min(tokens, most) - most, 0.0
        for each in self.minute:
            if over <= 0:
                break
            over -= each.tokens
            at = each.at + MINUTE_S
        return at

    def _forget(self, now: float) -> None:
        while self.minute and self.minute[0].at <= now - MINUTE_S:
            gone = self.minute.popleft()
            gone.is_counted = False
            self.used -= gone.tokens


def _is_short(stated: RateLimit, allowed: int) -> bool:
    """Whether a limit refills so soon that it covers much less than a minute; per minute it would be far too slow."""
    used = 0 if stated.remaining is None else allowed - stated.remaining
    return used > 0 and stated.reset_s is not None and stated.reset_s * allowed / used < _SHORT_S


def _tightest(stated: RateLimits) -> RateLimit | None:
    if stated.tokens is not None:
        return stated.tokens
    both = [limit for limit in (stated.input_tokens, stated.output_tokens) if limit is not None]
    known = [limit for limit in both if limit.remaining is not None]
    return min(known, key=lambda limit: (limit.remaining or 0) / (limit.allowed or 1), default=None)


_accounts: dict[str, _Account] = {}
_accounts_lock = Lock()
