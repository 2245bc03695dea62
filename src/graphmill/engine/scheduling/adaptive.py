"""Adaptive concurrency: starts high, and goes back from limits that are throttled or no faster."""

from __future__ import annotations

from math import inf, log, sqrt

from graphmill.core.result import Kind

Stamp = tuple[int, float]

_FIRST_LIMIT = 64
_LEAST_LIMIT = 8  # below which it does not look for a limit that is as fast
_BELOW = 0.7  # how far below a limit it looks: far enough to tell, near enough to lose little if it is slower there
_FIRST_CALLS = 2  # per slot, before it looks below the first limit: a short run is over by then
_CUT = 0.7
_EDGE = 1.15  # limits closer than this are the same: not searched between, their latencies not compared
_MIN_CALLS = 16  # to judge a limit by, and at least two per slot, so that slow calls count as well as quick ones
_ALARM = 5.0  # throttles beyond twice the floor: so many happen by chance once in tens of thousands of calls
_MIN_FLOOR, _FIRST_FLOOR, _MAX_FLOOR = 0.01, 0.05, 0.15  # above the maximum, a full server would pass for a flaky one
_FLOOR_CALLS = 200  # the number of calls over which the floor is learned
_REST_CALLS = 200  # per throttle that a failed limit has cost: trying higher then costs less than one call in a hundred
_MAX_REST_CALLS = 3800
_REST_TIMES = 20  # a gate or a cut stops everything, so it may take a twentieth of the time
_DOUBT = 1.5  # standard errors of doubt for a limit that seems no faster
_SURE_FAILURES = 4  # before so many limits have failed, a failure may have been bad luck: rests are shorter
_MAX_GATE_S = 60.0
_MIN_S = 1e-6


class _Level:
    """Latencies at one limit, as logarithms: a heavy tail hardly moves their mean."""

    __slots__ = ("_squares", "_total", "calls", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.calls = 0
        self._total = 0.0
        self._squares = 0.0

    def add(self, seconds: float) -> None:
        value = log(max(_MIN_S, seconds))
        self.calls += 1
        self._total += value
        self._squares += value * value

    @property
    def mean(self) -> float:
        return self._total / self.calls

    @property
    def variance(self) -> float:
        """The variance of the mean."""
        return max(0.0, self._squares / self.calls - self.mean**2) / self.calls

    def is_worth_more_than(self, lower: _Level) -> bool:
        """Whether it may give at least half of the speed that so many more slots should give."""
        possible = log(self.limit / lower.limit)
        gain = possible - (self.mean - lower.mean)
        return gain + _DOUBT * sqrt(self.variance + lower.variance) >= possible / 2


class Controller:
    """Finds how many attempts at once a server can handle.

    It starts at the ceiling, or at 64 if that is less. If many of the first calls are throttled, the limit is the number of those that
    were not. If none are, lower limits are compared for a moment, and the lowest that is as fast is kept.

    A limit holds once enough calls have succeeded under it. Then a higher one is tried: twice as high at first, later between the one
    that holds and the one that failed, and near the edge, after a rest, slightly higher. A limit fails if more calls are throttled
    than the *floor* explains, the share that is throttled at lower limits too, or if it is no faster than one well below.
    Then the limit is cut, so that floor and latency are measured again.
    """

    def __init__(self, *, ceiling: int) -> None:
        self.limit = min(_FIRST_LIMIT, ceiling)
        self.reason = "first guess"
        self._gated_until = 0.0
        self._may_probe = False
        self._probe = 0  # the attempt that was let through the gate, while it runs
        self._ceiling = ceiling
        self._running = 0
        self._starts = 0
        self._goal = self.limit  # what the limit rises to
        self._pace = 0.0
        self._climbed = 0.0
        self._step = 2.0
        self._holds = self.limit  # the highest limit that is known to hold
        self._failed: float = inf  # the lowest above it known to fail
        self._failures = 0
        self._floor = _FIRST_FLOOR
        self._score = 0.0  # throttles that the floor doesn't explain: a CUSUM, quick for a storm, slow for chance
        self._is_cut = False
        self._cut_at_start = 0
        self._is_resting = False
        self._rest_calls = 0.0
        self._rest_until = 0.0
        self._lower: _Level | None = None
        self._higher: _Level | None = None  # while it looks below a limit
        self._is_first = True  # until a limit was judged or cut
        self._is_first_cut = False
        self._open_level()
        self._opened_at_start = self.limit  # the first calls of all open connections
        self._enough_calls = max(_MIN_CALLS, _FIRST_CALLS * self.limit)

    def change_ceiling(self, ceiling: int) -> None:
        """Change the highest limit."""
        if self._failed == inf and self.limit == self._ceiling < ceiling:  # nothing is known above the old one
            self.limit = self._goal = self._holds = min(_FIRST_LIMIT, ceiling)
            self._lower = self._higher = None
            self._open_level()
        self._ceiling = ceiling
        if self.limit > ceiling or self._goal > ceiling:
            self.limit = self._goal = self._holds = min(self.limit, ceiling)
            self._open_level()

    def started(self, now: float) -> Stamp:
        """Count a start; its end returns the stamp."""
        self._running += 1
        self._starts += 1
        if self._running >= self.limit:
            self._is_used = True
        if self._may_probe:
            self._may_probe, self._probe = False, self._starts if now < self._gated_until else 0
        return (self._starts, now)

    @property
    def gated_until(self) -> float:
        """When the next attempt may start. One attempt passes each gate: a response opens it, a refusal renews it."""
        return 0.0 if self._may_probe else self._gated_until

    def ended(self, stamp: Stamp, now: float, kind: Kind | None, retry_after_s: float | None = None) -> None:
        """Learn from the end of an attempt; only success (None) and throttling say anything."""
        if not stamp[0]:
            return  # it began before the limit adapted
        self._running -= 1
        if stamp[0] == self._probe:
            self._probed(now, kind, retry_after_s or 0.0)
        if kind is None:
            self._succeeded(stamp[0], stamp[1], now)
        elif kind is Kind.THROTTLED:
            self._throttled(stamp[0], now, retry_after_s or 0.0)

    def _probed(self, now: float, kind: Kind | None, retry_after_s: float) -> None:
        self._probe = 0
        if kind is None:
            self._gated_until = 0.0
        elif kind is Kind.THROTTLED:
            self._gated_until = now + min(retry_after_s, _MAX_GATE_S)

    def _succeeded(self, start: int, began: float, now: float) -> None:
        self._rest_calls -= 1
        if start <= self._cut_at_start:  # it began before the cut
            return
        if self._score > 0:
            self._score = max(0.0, self._score - 2 * self._floor)
        if self._goal <= self._holds:
            self._floor = max(_MIN_FLOOR, self._floor - self._floor / _FLOOR_CALLS)
        self._advance(start, began, now)

    def _advance(self, start: int, began: float, now: float) -> None:
        """Rise, rest, or learn about the present limit."""
        if self.limit < self._goal:
            self._climb()
        elif self._is_resting:
            if self._rest_calls <= 0 and now >= self._rest_until:
                self._failed, self._step = inf, sqrt(_EDGE)
                self._try_next()
        elif start > self._opened_at_start:
            self._level.add(now - began)
            if self._level.calls >= self._enough_calls and self._is_used:
                self._judge()

    def _throttled(self, start: int, now: float, retry_after_s: float) -> None:
        if start <= self._cut_at_start:
            self._rest_calls = min(self._rest_calls + _REST_CALLS, _MAX_REST_CALLS)
            if self._is_first_cut:
                self._lower_to(self.limit - 1)
            return
        self._score += 1 - 2 * self._floor
        if self._goal <= self._holds:
            self._floor = min(_MAX_FLOOR, self._floor + (1 - self._floor) / _FLOOR_CALLS)
        if self._score >= _ALARM:
            gate_s = min(retry_after_s, _MAX_GATE_S)
            self._gated_until, self._may_probe = now + gate_s, True
            self._rest_until = now + _REST_TIMES * gate_s
            self._cut(f"throttled too often at {self.limit}", throttles=_ALARM)

    def _climb(self) -> None:
        """Reach the goal within as many calls as there were slots: a storm is noticed after its first few calls."""
        self._climbed += self._pace
        if self._climbed >= 1 and self._is_used:
            self._climbed -= 1
            self.limit += 1
            if self.limit == self._goal:
                self._open_level()

    def _open_level(self) -> None:
        self._level = _Level(self.limit)
        self._enough_calls = max(_MIN_CALLS, 2 * self.limit)
        self._opened_at_start = self._starts
        self._is_used = False
        self._is_resting = False

    def _judge(self) -> None:
        level, lower = self._level, self._lower
        is_first, self._is_first, self._is_first_cut = self._is_first, False, False
        self._score = max(0.0, self._score)
        if is_first or self._higher is not None:
            if self._can_look_below(level):
                return
        elif self._is_cut or lower is None:
            self._lower, self._is_cut = level, False
        elif level.limit >= _EDGE * lower.limit and not level.is_worth_more_than(lower):
            self._cut(f"no faster above {lower.limit}")
            return
        self._try_next()

    def _can_look_below(self, level: _Level) -> bool:
        """Try a lower limit, as long as the present one is as fast as the one above it; return whether there is one to try."""
        higher, self._higher = self._higher, None
        self._lower = level
        if higher is not None:
            if higher.is_worth_more_than(level):
                return False
            self._failed, self._holds = higher.limit, level.limit
        below = max(_LEAST_LIMIT, int(_BELOW * level.limit))
        if below >= level.limit:
            return False
        self._higher = level
        self.limit = self._goal = below
        self.reason = "compares a lower limit"
        self._open_level()
        self._enough_calls = max(_MIN_CALLS, below)
        return True

    def _try_next(self) -> None:
        limit = self.limit
        if limit < self._holds:
            self._aim(self._holds)
            return
        self._holds = limit
        if self._failed == inf:
            self._aim(max(limit + 1, round(limit * self._step)))
            self._step = min(2.0, self._step**2)
        elif self._failed > max(limit + 1, limit * _EDGE):
            self._aim(round(sqrt(limit * self._failed)))
        else:
            self._is_resting = True

    def _aim(self, goal: int) -> None:
        goal = min(goal, self._ceiling)
        if goal <= self.limit:
            self._is_resting = True
            self._rest_calls = _MAX_REST_CALLS
            return
        if goal >= _EDGE * self.limit:
            self._lower = self._level
        self._goal = goal
        self._pace = (goal - self.limit) / self.limit
        self._climbed = 0.0
        self._is_used = False
        self.reason = "found free room"

    def _cut(self, reason: str, *, throttles: float = 0.0) -> None:
        if not self._is_cut:  # further cuts may follow; the first one says what failed
            self._failed = self.limit
            rest = min(max(0.0, self._rest_calls) + throttles * _REST_CALLS, _MAX_REST_CALLS)
            self._failures = min(self._failures + 1, _SURE_FAILURES)
            self._rest_calls = max(rest, _REST_TIMES * self.limit) * self._failures / _SURE_FAILURES
        cut = max(1, int(_CUT * min(self.limit, self._holds)))
        self._is_first_cut = self._is_first
        if self._is_first:  # those that run were let in, unless they are throttled yet
            self._is_first, cut = False, max(1, self._running)
            self._failures = _SURE_FAILURES
        self.reason = reason
        self._is_cut, self._higher = True, None
        self._cut_at_start = self._starts
        self._lower_to(cut)

    def _lower_to(self, limit: int) -> None:
        limit = max(1, limit)
        if self._goal <= self._holds:
            self._holds = limit
        self.limit = self._goal = limit
        self._score = -min(
            _ALARM, 2 * self._floor * limit
        )  # throttles return at once, successes of the same time later
        self._open_level()
