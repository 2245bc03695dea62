"""Whether and when a failed attempt is retried: computed from the failure and the policy."""

from __future__ import annotations

from random import Random

from graphmill.core.result import Failure, Kind
from graphmill.engine.policy import Retry

_JITTER = 0.5
_JITTER_AFTER = 0.1
_MOST_DOUBLINGS = 64
MOST_CRASHES = 3  # an item that kills worker after worker is poison, however many attempts are left
_LEAST_THROTTLED_S = 0.1  # a wait of 0 s would use up no budget, and retry forever


class Tries:
    """The failed attempts of one step so far, and so whether and when there is another: pure."""

    __slots__ = ("_random", "_retry", "crashes", "refusals", "throttled_s", "throttled_since", "throttles")

    def __init__(self, retry: Retry, random: Random, *, refusals: int, crashes: int) -> None:
        self._retry = retry
        self._random = random
        self.refusals = refusals  # attempts that do not count: what they depend on was unavailable
        self.crashes = crashes
        self.throttles = 0
        self.throttled_s = 0.0
        self.throttled_since = 0.0

    def next_wait_s(self, failure: Failure, attempts: int, now: float, *, is_probe: bool) -> float | None:
        """Count a failure, the last of so many attempts; return the wait before the next one, None if there is none."""
        self._count(failure.kind, now, is_probe=is_probe)
        if not failure.retryable or (failure.kind is Kind.CRASH and self.crashes >= MOST_CRASHES):
            return None
        if failure.kind is Kind.UNAVAILABLE:
            return 0.0  # it waits in its lane, for a probe that is answered
        if failure.kind is Kind.THROTTLED:
            wait_s = max(_LEAST_THROTTLED_S, self._wait_s(failure, self.throttles))
            left_s = self._retry.throttle_budget_s - self.throttled_s
            if left_s >= _LEAST_THROTTLED_S:
                return min(wait_s, left_s)
            return None
        tries = attempts - self.throttles - self.refusals
        if tries < self._retry.attempts:
            return self._wait_s(failure, tries)
        return None

    def _count(self, kind: Kind, now: float, *, is_probe: bool) -> None:
        if kind is Kind.THROTTLED:
            self.throttles += 1
            if self.throttles == 1:
                self.throttled_since = now
        elif kind is Kind.UNAVAILABLE or (kind is Kind.TIMEOUT and is_probe):
            self.refusals += 1
        elif kind is Kind.CRASH:
            self.crashes += 1

    def _wait_s(self, failure: Failure, count: int) -> float:
        retry = self._retry
        jitter = self._random.random() if retry.jitter else 0.0
        if failure.retry_after_s is not None:  # the server knows better than our backoff
            return max(retry.wait_s, failure.retry_after_s) * (1 + _JITTER_AFTER * jitter)
        room = 1 + _JITTER if retry.jitter else 1.0
        grown = max(retry.wait_s, min(_growth(retry, count), retry.cap_s / room))
        return grown + min(grown * _JITTER, retry.cap_s - grown) * jitter

    def is_outage(self, failure: Failure, now: float, succeeded_at: float) -> bool:
        """Whether throttling that used up its time budget is an outage: lately no call of anybody got through."""
        is_throttled = failure.kind is Kind.THROTTLED and self.throttled_s > 0
        return is_throttled and succeeded_at < (self.throttled_since + now) / 2


def _growth(retry: Retry, count: int) -> float:
    if retry.backoff == "fixed":
        return retry.wait_s
    if retry.backoff == "linear":
        return retry.wait_s * count
    return float(retry.wait_s * 2 ** min(count - 1, _MOST_DOUBLINGS))
