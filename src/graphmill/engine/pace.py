"""Pace: how many attempts what they depend on is known to bear in a minute; nothing starts that would be one too many."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf
from threading import Lock
from typing import Protocol

from graphmill.core.rate_limits import RateLimit, RateLimits

MINUTE_S = 60.6  # a hundredth more: the way to the server takes one call longer than the next
CATCH_UP_S = 0.1  # what a start may be ahead of its time, because the one before it came late
_MOST_CLOSED_S = (
    120.0  # of what is back later than this, such as a day's share, the server's own refusal is the better word
)
_SHORT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is known of it; None is no limit. Tokens are of both directions.

    ``account`` tells whose they are, without telling its key: all that have the same share one pace.
    """

    concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    account: str = ""


class Holder(Protocol):
    """Whoever has limits of its own."""

    @property
    def account(self) -> str:
        """Tells it from others, without its key."""


class Reservation:
    """What a start was given: its tokens count as used from then on, until they are settled."""

    __slots__ = ("at", "beside", "is_counted", "requests_at", "slice", "tokens", "unit_s")

    def __init__(self, at: float, tokens: int, unit_s: float, requests_at: float) -> None:
        self.at = at
        self.tokens = tokens
        self.unit_s = unit_s
        self.requests_at = requests_at  # when the next request may start, if this is made
        self.is_counted = False  # among those of the last minute
        self.slice = 0  # of an allowance that others share
        self.beside: Reservation | None = None  # in the pace that a run keeps to while it can not share


class _Track:
    """One thing that is limited: as it was set, and as the other side's last answer has told."""

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
        """The time that one takes: as set, or, once half of what is allowed is gone, as learned."""
        is_learned = self.allowed is not None and self.left < self.allowed / 2
        allowed = min(self.per_minute or inf, self.allowed if is_learned and self.allowed else inf)
        return MINUTE_S / allowed

    @property
    def most(self) -> int | None:
        """How many a minute it is, as set or as told, whichever is less."""
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
        """Take one back that was not used, if it is the last: what has started behind it has waited for it."""
        self.left += 1
        if at == self.at:
            self.at -= self.unit_s

    def learn(self, told: RateLimit, now: float, own: int) -> None:
        """Take the other side's word; those under way may not be counted in it yet."""
        if told.allowed:
            self.allowed = None if _is_short(told, told.allowed) else told.allowed
        if told.remaining is not None and told.reset_s is not None and told.reset_s <= _MOST_CLOSED_S:
            self.left = told.remaining - max(0, self.pending - own)
            self.back_at = now + told.reset_s


def _is_short(told: RateLimit, allowed: int) -> bool:
    """Tell whether a limit is back so soon that it is of much less than a minute, and would be far too slow for one."""
    used = 0 if told.remaining is None else allowed - told.remaining
    return used > 0 and told.reset_s is not None and told.reset_s * allowed / used < _SHORT_S


class Pace:
    """Spreads starts evenly, so that no minute, wherever it begins, holds more than are allowed; safe for threads.

    The tokens of an attempt are reserved as they are estimated, and settled when it has ended.
    """

    def __init__(self, limits: Limits) -> None:
        self._lock = Lock()
        self._requests = _Track(limits.requests_per_minute)
        self._tokens = _Track(limits.tokens_per_minute)
        self._minute: deque[Reservation] = deque()  # those whose tokens count now
        self._used = 0

    def set(self, limits: Limits) -> None:
        """Keep to what is set now."""
        self._requests.per_minute, self._tokens.per_minute = limits.requests_per_minute, limits.tokens_per_minute

    @property
    def counts_tokens(self) -> bool:
        """Whether anybody asks how many tokens an attempt may take."""
        return self._tokens.per_minute is not None or self._tokens.allowed is not None

    @property
    def request_s(self) -> float:
        """The time that one request takes at present; 0 where they are not limited."""
        return self._requests.unit_s

    @property
    def token_s(self) -> float:
        """The time that one token takes at present; 0 where they are not limited."""
        return self._tokens.unit_s

    @property
    def learned(self) -> tuple[int | None, int | None]:
        """How many requests and tokens a minute the other side says that it allows."""
        return self._requests.allowed, self._tokens.allowed

    @property
    def closed_until(self) -> float:
        """When what the other side says is used up is back."""
        return max((track.back_at for track in (self._requests, self._tokens) if track.left < 1), default=0.0)

    def opens_at(self, weight: int = 0) -> float:
        """Tell from when on the next may start, if it takes so many tokens."""
        with self._lock:
            at = max(self._requests.opens_at(1), self._tokens.opens_at(weight))
            return max(at, self._room_at(weight)) if self._minute else at

    def limit_for(self, weight: int) -> str:
        """Name the limit for which the next has to wait, if it takes so many tokens."""
        with self._lock:
            tokens_at = max(self._tokens.opens_at(weight), self._room_at(weight))
            is_of_tokens = tokens_at > self._requests.opens_at(1)
            most = (self._tokens if is_of_tokens else self._requests).most
        word = "tokens" if is_of_tokens else "requests"
        return f"its limit of {word}" if most is None else f"its limit of {most:,} {word} a minute"

    def started(self, now: float, tokens: int) -> Reservation:
        """Note a start, and how many tokens it may take."""
        with self._lock:
            self._requests.take(now, 1)
            made = Reservation(now, tokens, self._tokens.take(now, tokens), self._requests.at)
            if self._tokens.per_minute is not None:
                self._count(made, now)
            return made

    def returned(self, reserved: Reservation) -> None:
        """Take back all of an attempt that has asked for nothing; its place among the requests only if nobody has started behind it."""
        self.settled(reserved, 0)
        with self._lock:
            self._requests.put_back(reserved.requests_at)

    def settled(self, reserved: Reservation, used: int) -> None:
        """Take back what an attempt has not used of its tokens, or add what it has used beyond."""
        with self._lock:
            self._requests.pending -= 1
            self._tokens.pending -= reserved.tokens
            self._tokens.at += (used - reserved.tokens) * reserved.unit_s
            if reserved.is_counted:
                self._used += used - reserved.tokens
                reserved.tokens = used

    def learn(self, told: RateLimits, now: float, reserved: Reservation | None = None) -> None:
        """Take the other side's word for what is left; ``reserved`` is of the call that it has answered."""
        with self._lock:
            if told.requests is not None:
                self._requests.learn(told.requests, now, 1)
            if (tokens := _tightest(told)) is not None:
                self._tokens.learn(tokens, now, 0 if reserved is None else reserved.tokens)

    def _count(self, made: Reservation, now: float) -> None:
        self._forget(now)
        self._minute.append(made)
        self._used += made.tokens
        made.is_counted = True

    def _forget(self, now: float) -> None:
        while self._minute and self._minute[0].at <= now - MINUTE_S:
            gone = self._minute.popleft()
            gone.is_counted = False
            self._used -= gone.tokens

    def _room_at(self, weight: int) -> float:
        """Tell when so many tokens more fit into a minute, however unlike each other the calls in it are."""
        most = self._tokens.per_minute
        if most is None:
            return 0.0
        over, at = self._used + min(weight, most) - most, 0.0
        for each in self._minute:
            if over <= 0:
                break
            over -= each.tokens
            at = each.at + MINUTE_S
        return at


def _tightest(told: RateLimits) -> RateLimit | None:
    if told.tokens is not None:
        return told.tokens
    both = [each for each in (told.input_tokens, told.output_tokens) if each is not None and each.remaining is not None]
    return min(both, key=lambda each: (each.remaining or 0) / (each.allowed or 1), default=None)
