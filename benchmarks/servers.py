"""What a provider does with more calls than it can bear: seven simulated servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from random import Random
from typing import Protocol

_REFUSAL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a call ends: after so many seconds, done or throttled; ``is_injected`` marks a throttle that no client can avoid."""

    takes_s: float
    is_throttled: bool = False
    is_injected: bool = False
    retry_after_s: float | None = None


class Server(Protocol):
    """Decides at the moment of a call how it will end. ``oracle_rate`` is what a client that knows the server gets, if that can be told."""

    @property
    def oracle_rate(self) -> float | None:
        """Calls per second; None if only trying can tell."""

    def call(self, now: float, random: Random) -> Answer:
        """Let a call in or refuse it."""

    def done(self) -> None:
        """Free the place of a call that was let in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Lognormal seconds with this mean; a spread of 1.2 is a heavy tail."""

    mean_s: float = 1.0
    spread: float = 0.3

    def draw(self, random: Random) -> float:
        """Give the time of one call."""
        return random.lognormvariate(log(self.mean_s) - self.spread**2 / 2, self.spread)


_MILD = Latency()


class Bucket:
    """Refills at a steady rate; each call takes its tokens or is told when there will be enough."""

    def __init__(
        self, *, rate: float, burst: float, tokens: tuple[float, float] = (1.0, 1.0), latency: Latency = _MILD
    ) -> None:
        self.oracle_rate = rate * 2 / sum(tokens)
        self._rate = rate
        self._burst = burst
        self._tokens = tokens
        self._latency = latency
        self._level = burst
        self._filled_at = 0.0

    def call(self, now: float, random: Random) -> Answer:
        """Let a call in if the bucket holds what it needs."""
        self._level = min(self._burst, self._level + (now - self._filled_at) * self._rate)
        self._filled_at = now
        needed = random.uniform(*self._tokens)
        if self._level < needed:
            return Answer(takes_s=_REFUSAL_S, is_throttled=True, retry_after_s=(needed - self._level) / self._rate)
        self._level -= needed
        return Answer(takes_s=self._latency.draw(random))

    def done(self) -> None:
        """Do nothing: a bucket counts starts."""


class Places:
    """Serves so many calls at once and refuses the rest; the number may change at a steady beat, and calls may be refused at random."""

    def __init__(
        self,
        *,
        places: tuple[int, ...],
        beat_s: float = 120.0,
        refused_share: float = 0.0,
        retry_after_s: float | None = 1.0,
        latency: Latency = _MILD,
    ) -> None:
        self.oracle_rate = sum(places) / len(places) / latency.mean_s
        self._places = places
        self._beat_s = beat_s
        self._refused_share = refused_share
        self._retry_after_s = retry_after_s
        self._latency = latency
        self._taken = 0

    def call(self, now: float, random: Random) -> Answer:
        """Let a call in if a place is free and chance allows."""
        is_injected = random.random() < self._refused_share
        if is_injected or self._taken >= self._places[int(now / self._beat_s) % len(self._places)]:
            return Answer(
                takes_s=_REFUSAL_S, is_throttled=True, is_injected=is_injected, retry_after_s=self._retry_after_s
            )
        self._taken += 1
        return Answer(takes_s=self._latency.draw(random))

    def done(self) -> None:
        """Free a place."""
        self._taken -= 1


class Knee:
    """Never refuses; above the knee every call slows all: with an exponent of 1 it merely queues, above 1 the rate falls."""

    def __init__(self, *, knee: int = 24, exponent: float = 2.0, latency: Latency = _MILD) -> None:
        self.oracle_rate = None
        self._knee = knee
        self._exponent = exponent
        self._latency = latency
        self._taken = 0

    def call(self, now: float, random: Random) -> Answer:  # noqa: ARG002
        """Let a call in; it takes as long as the load at its start makes it."""
        self._taken += 1
        return Answer(takes_s=self._latency.draw(random) * max(1.0, self._taken / self._knee) ** self._exponent)

    def done(self) -> None:
        """Take a call off the load."""
        self._taken -= 1


SEVEN: dict[str, Callable[[], Server]] = {
    "request bucket": lambda: Bucket(rate=20, burst=20),
    "token bucket": lambda: Bucket(rate=20_000, burst=20_000, tokens=(200, 1800)),
    "fixed limit": lambda: Places(places=(32,)),
    "moving limit": lambda: Places(places=(64, 32)),
    "random refusals": lambda: Places(places=(32,), refused_share=0.05),
    "knee": Knee,
    "heavy tail": lambda: Places(places=(32,), latency=Latency(spread=1.2)),
}
