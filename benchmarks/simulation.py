"""Virtual time: drives a client against a simulated server as the executor would, with no end of items."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Protocol

from benchmarks.servers import Answer, Server
from graphmill.core.result import Kind
from graphmill.engine.scheduling.adaptive import Stamp

WARM_UP_S = 60.0
_RUN_S = 600.0
_SETTLED_SHARE = 0.85
_SETTLED_OVER_S = 20.0
_MOST_WAIT_S = 60.0


class Client(Protocol):
    """What decides how many calls run at once."""

    limit: int
    gated_until: float

    def started(self, now: float) -> Stamp:
        """See a call start."""

    def ended(self, stamp: Stamp, now: float, kind: Kind | None, retry_after_s: float | None = None) -> None:
        """See a call end."""


class Fixed:
    """A client that keeps one limit."""

    gated_until = 0.0

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def started(self, now: float) -> Stamp:
        """Give any stamp."""
        return (0, now)

    def ended(self, *_: object) -> None:
        """Learn nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run came to; ``throttled_share`` leaves out the throttles that no client can avoid."""

    done_at: list[float]
    throttled_share: float
    last_limit: int

    def rate(self, since_s: float = 0.0) -> float:
        """Tell the calls done per second from then on."""
        return self._done(since_s, _RUN_S) / (_RUN_S - since_s)

    def settled_s(self, rate: float) -> float:
        """Tell the first second from which the following 20 s reach 0.85 of this rate."""
        enough = _SETTLED_SHARE * rate * _SETTLED_OVER_S
        return next(
            (float(second) for second in range(int(_RUN_S)) if self._done(second, second + _SETTLED_OVER_S) >= enough),
            _RUN_S,
        )

    def _done(self, since_s: float, until_s: float) -> int:
        return bisect_left(self.done_at, until_s) - bisect_left(self.done_at, since_s)


def simulate(server: Server, client: Client, random: Random) -> Outcome:
    """Let ten minutes pass."""
    return _Simulation(server, client, random).run()


class _Simulation:
    def __init__(self, server: Server, client: Client, random: Random) -> None:
        self._server = server
        self._client = client
        self._random = random
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = count()
        self._running = 0
        self._calls = 0
        self._avoidable = 0
        self._ready: list[int] = []  # how often each item whose wait is over was throttled
        self._done_at: list[float] = []
        self._woken_at = 0.0

    def run(self) -> Outcome:
        now = 0.0
        while now < _RUN_S:
            self._start(now)
            now, _, act = heappop(self._events)
            act(now)
        return Outcome(
            done_at=self._done_at, throttled_share=self._avoidable / self._calls, last_limit=self._client.limit
        )

    def _at(self, moment: float, act: Callable[[float], None]) -> None:
        heappush(self._events, (moment, next(self._numbers), act))

    def _start(self, now: float) -> None:
        gate = self._client.gated_until
        if now < gate:
            if gate > self._woken_at:
                self._woken_at = gate
                self._at(gate, lambda _: None)
            return
        while self._running < self._client.limit:
            throttles = self._ready.pop() if self._ready else 0
            self._running += 1
            self._calls += 1
            stamp = self._client.started(now)
            answer = self._server.call(now, self._random)
            self._at(now + answer.takes_s, partial(self._end, answer, stamp, throttles))

    def _end(self, answer: Answer, stamp: Stamp, throttles: int, now: float) -> None:
        self._running -= 1
        if not answer.is_throttled:
            self._server.done()
            self._done_at.append(now)
            self._client.ended(stamp, now, None)
            return
        self._avoidable += not answer.is_injected
        self._client.ended(stamp, now, Kind.THROTTLED, answer.retry_after_s)
        self._at(now + self._wait_s(answer, throttles), lambda _: self._ready.append(throttles + 1))

    def _wait_s(self, answer: Answer, throttles: int) -> float:
        if answer.retry_after_s is not None:
            return answer.retry_after_s * (1 + 0.1 * self._random.random())
        return min(_MOST_WAIT_S, 2.0**throttles * (1 + 0.5 * self._random.random()))
