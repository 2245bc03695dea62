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


class Controller:
    """Finds how many attempts at once a server can handle.

    It starts at the ceiling, or at 64 if that is less. If many of the first calls are throttled, the limit is the
    number of those that were not. If none are, lower limits are compared for a moment, and the lowest that is as fast
    is kept.

    A limit holds once enough calls have succeeded under it. Then a higher one is tried: twice as high at first, later
    between the one that holds and the one that failed, and near the edge, after a rest, slightly higher. A limit fails
    if more calls are throttled than the *floor* explains, the share that is throttled at lower limits too, or if it is
    no faster than one well below. Then the limit is cut, so that floor and latency are measured again.
    """

    def __init__(self, *, ceiling: int) -> None:
        self.limit = min(_FIRST_LIMIT, ceiling)
        self.reason = "first guess"
        self._running = 0
        self._starts = 0
        self._gate = _Gate()
        self._climb = _Climb(self.limit)
        self._bounds = _Bounds(self.limit, ceiling)
        self._throttles = _Throttles()
        self._rest = _Rest()
        self._cuts = _Cuts()
        self._lower: _Level | None = None
        self._higher: _Level | None = None  # while it looks below a limit
        # The first calls of all open connections don't count.
        self._level = _Level(self.limit, opened_at_start=self.limit, calls_per_slot=_FIRST_CALLS)

    def change_ceiling(self, ceiling: int) -> None:
        """Change the highest limit."""
        bounds = self._bounds
        if bounds.failed == inf and self.limit == bounds.ceiling < ceiling:  # nothing is known above the old one
            self._lower = self._higher = None
            self._hold(min(_FIRST_LIMIT, ceiling))
        bounds.ceiling = ceiling
        if self.limit > ceiling or self._climb.goal > ceiling:
            self._hold(min(self.limit, ceiling))

    def started(self, now: float) -> Stamp:
        """Count a start; its end returns the stamp."""
        self._running += 1
        self._starts += 1
        if self._running >= self.limit:
            self._level.is_used = True
        self._gate.started(self._starts, now)
        return (self._starts, now)

    @property
    def gated_until(self) -> float:
        """When the next attempt may start. One attempt passes each gate: a response opens it, a refusal renews it."""
        return self._gate.opens_at

    def ended(self, stamp: Stamp, now: float, kind: Kind | None, retry_after_s: float | None = None) -> None:
        """Learn from the end of an attempt; only success (None) and throttling say anything."""
        start, began = stamp
        if not start:
            return  # it began before the limit adapted
        gate_s = min(retry_after_s or 0.0, _MAX_GATE_S)
        self._running -= 1
        self._gate.ended(start, now, kind, gate_s)
        if kind is None:
            self._succeeded(start, began, now)
        elif kind is Kind.THROTTLED:
            self._throttled(start, now, gate_s)

    def _succeeded(self, start: int, began: float, now: float) -> None:
        self._rest.calls -= 1
        if start <= self._cuts.at_start:  # it began before the cut
            return
        self._throttles.note_success(learns=self._is_at_known_limit)
        if self.limit < self._climb.goal:
            # The goal is reached within as many calls as there were slots: a storm is noticed after its first few
            # calls.
            if self._climb.step(is_used=self._level.is_used):
                self.limit += 1
                if self.limit == self._climb.goal:
                    self._open_level()
        elif self._rest.is_resting:
            if self._rest.is_over(now):
                self._bounds.forget_failure()
                self._try_next()
        elif start > self._level.opened_at_start:
            self._level.add(now - began)
            if self._level.is_known:
                self._judge()

    def _throttled(self, start: int, now: float, gate_s: float) -> None:
        if start <= self._cuts.at_start:
            self._rest.extend()
            if self._cuts.is_of_first_limit:
                self._lower_to(self.limit - 1)
        elif self._throttles.note_throttle(learns=self._is_at_known_limit):
            self._gate.close(now + gate_s)
            self._rest.until = now + _REST_TIMES * gate_s
            self._cut(f"throttled too often at {self.limit}", throttles=_ALARM)

    @property
    def _is_at_known_limit(self) -> bool:
        """Whether the limit is known to hold: what is throttled here is the floor."""
        return self._climb.goal <= self._bounds.holds

    def _open_level(self) -> None:
        self._level = _Level(self.limit, opened_at_start=self._starts)
        self._rest.is_resting = False

    def _judge(self) -> None:
        """Decide what follows, once enough is known about the present limit."""
        level, lower = self._level, self._lower
        is_first = self._cuts.judge()
        self._throttles.note_level()
        if is_first or self._higher is not None:
            if self._can_look_below(level):
                return
        elif self._cuts.is_cut or lower is None:
            self._lower, self._cuts.is_cut = level, False
        elif level.limit >= _EDGE * lower.limit and not level.is_worth_more_than(lower):
            self._cut(f"no faster above {lower.limit}")
            return
        self._try_next()

    def _can_look_below(self, level: _Level) -> bool:
        """Try a lower limit while the present one is as fast as the one above; return whether there is one to try."""
        higher, self._higher = self._higher, None
        self._lower = level
        if higher is not None:
            if higher.is_worth_more_than(level):
                return False
            self._bounds.failed, self._bounds.holds = higher.limit, level.limit
        below = max(_LEAST_LIMIT, int(_BELOW * level.limit))
        if below >= level.limit:
            return False
        self._higher = level
        self.limit = self._climb.goal = below
        self.reason = "compares a lower limit"
        self._level = _Level(below, opened_at_start=self._starts, calls_per_slot=1)
        self._rest.is_resting = False
        return True

    def _try_next(self) -> None:
        goal = self._bounds.next_goal(self.limit)
        if goal is None:
            self._rest.is_resting = True
            return
        goal = min(goal, self._bounds.ceiling)
        if goal <= self.limit:
            self._rest.is_resting = True
            self._rest.calls = _MAX_REST_CALLS
            return
        if goal >= _EDGE * self.limit:
            self._lower = self._level
        self._climb.begin(self.limit, goal)
        self._level.is_used = False
        self.reason = "found free room"

    def _cut(self, reason: str, *, throttles: float = 0.0) -> None:
        if not self._cuts.is_cut:  # further cuts may follow; the first one says what failed
            self._bounds.failed = self.limit
            self._rest.begin(self.limit, throttles)
        limit = int(_CUT * min(self.limit, self._bounds.holds))
        if self._cuts.begin(self._starts):  # those that run were let in, unless they are throttled yet
            limit = self._running
            self._rest.failures = _SURE_FAILURES
        self.reason = reason
        self._higher = None
        self._lower_to(limit)

    def _lower_to(self, limit: int) -> None:
        limit = max(1, limit)
        if self._is_at_known_limit:
            self._bounds.holds = limit
        self.limit = self._climb.goal = limit
        self._throttles.note_cut(limit)
        self._open_level()

    def _hold(self, limit: int) -> None:
        self.limit = self._climb.goal = self._bounds.holds = limit
        self._open_level()


class _Gate:
    """The wait that a server asks for when it throttles too many calls."""

    __slots__ = ("_may_pass", "_probe", "_until")

    def __init__(self) -> None:
        self._until = 0.0
        self._may_pass = False
        self._probe = 0  # the attempt that was let through, while it runs

    @property
    def opens_at(self) -> float:
        return 0.0 if self._may_pass else self._until

    def close(self, until: float) -> None:
        self._until, self._may_pass = until, True

    def started(self, start: int, now: float) -> None:
        if self._may_pass:
            self._may_pass = False
            self._probe = start if now < self._until else 0

    def ended(self, start: int, now: float, kind: Kind | None, gate_s: float) -> None:
        if start != self._probe:
            return
        self._probe = 0
        if kind is None:
            self._until = 0.0
        elif kind is Kind.THROTTLED:
            self._until = now + gate_s


class _Climb:
    """A rise to a goal, a little with each call that succeeds."""

    __slots__ = ("_climbed", "_pace", "goal")

    def __init__(self, goal: int) -> None:
        self.goal = goal
        self._pace = 0.0
        self._climbed = 0.0

    def begin(self, limit: int, goal: int) -> None:
        self.goal = goal
        self._pace = (goal - limit) / limit
        self._climbed = 0.0

    def step(self, *, is_used: bool) -> bool:
        """Whether the limit rises by one now."""
        self._climbed += self._pace
        if self._climbed < 1 or not is_used:
            return False
        self._climbed -= 1
        return True


class _Bounds:
    """What is known about limits: the highest allowed, the highest that holds, and the lowest above it that failed."""

    __slots__ = ("_step", "ceiling", "failed", "holds")

    def __init__(self, limit: int, ceiling: int) -> None:
        self.ceiling = ceiling
        self.holds = limit
        self.failed: float = inf
        self._step = 2.0  # how far to go beyond one that holds

    def forget_failure(self) -> None:
        self.failed, self._step = inf, sqrt(_EDGE)

    def next_goal(self, limit: int) -> int | None:
        """Return what to try after a limit that holds; None near one that failed."""
        if limit < self.holds:
            return self.holds
        self.holds = limit
        if self.failed == inf:
            goal = max(limit + 1, round(limit * self._step))
            self._step = min(2.0, self._step**2)
            return goal
        if self.failed > max(limit + 1, limit * _EDGE):
            return round(sqrt(limit * self.failed))
        return None


class _Throttles:
    """How many more calls are throttled than the floor explains: a CUSUM, quick for a storm, slow for chance."""

    __slots__ = ("_floor", "_score")

    def __init__(self) -> None:
        self._floor = _FIRST_FLOOR
        self._score = 0.0

    def note_success(self, *, learns: bool) -> None:
        if self._score > 0:
            self._score = max(0.0, self._score - 2 * self._floor)
        if learns:
            self._floor = max(_MIN_FLOOR, self._floor - self._floor / _FLOOR_CALLS)

    def note_throttle(self, *, learns: bool) -> bool:
        """Count a throttled call; return whether they are too many."""
        self._score += 1 - 2 * self._floor
        if learns:
            self._floor = min(_MAX_FLOOR, self._floor + (1 - self._floor) / _FLOOR_CALLS)
        return self._score >= _ALARM

    def note_level(self) -> None:
        self._score = max(0.0, self._score)

    def note_cut(self, limit: int) -> None:
        # Throttles return at once, successes of the same time later.
        self._score = -min(_ALARM, 2 * self._floor * limit)


class _Rest:
    """How long no higher limit is tried, in calls and in time."""

    __slots__ = ("calls", "failures", "is_resting", "until")

    def __init__(self) -> None:
        self.calls = 0.0
        self.until = 0.0
        self.failures = 0
        self.is_resting = False

    def begin(self, limit: int, throttles: float) -> None:
        """Rest after a limit has failed that has cost so many throttles."""
        calls = min(max(0.0, self.calls) + throttles * _REST_CALLS, _MAX_REST_CALLS)
        self.failures = min(self.failures + 1, _SURE_FAILURES)
        self.calls = max(calls, _REST_TIMES * limit) * self.failures / _SURE_FAILURES

    def extend(self) -> None:
        self.calls = min(self.calls + _REST_CALLS, _MAX_REST_CALLS)

    def is_over(self, now: float) -> bool:
        return self.calls <= 0 and now >= self.until


class _Cuts:
    """Whether the limit was cut since one was judged, and which attempts began before that."""

    __slots__ = ("_is_first", "at_start", "is_cut", "is_of_first_limit")

    def __init__(self) -> None:
        self.at_start = 0
        self.is_cut = False
        self.is_of_first_limit = False
        self._is_first = True  # until a limit was judged or cut

    def begin(self, start: int) -> bool:
        """Note a cut after so many starts; return whether it is of the first limit."""
        self.at_start, self.is_cut = start, True
        self.is_of_first_limit, self._is_first = self._is_first, False
        return self.is_of_first_limit

    def judge(self) -> bool:
        """Note that a limit is judged; return whether it is the first."""
        is_first, self._is_first, self.is_of_first_limit = self._is_first, False, False
        return is_first


class _Level:
    """Latencies at one limit, as logarithms: a heavy tail hardly moves their mean."""

    __slots__ = ("_enough_calls", "_squares", "_total", "calls", "is_used", "limit", "opened_at_start")

    def __init__(self, limit: int, *, opened_at_start: int, calls_per_slot: int = 2) -> None:
        self.limit = limit
        self.opened_at_start = opened_at_start
        self.is_used = False
        self.calls = 0
        self._enough_calls = max(_MIN_CALLS, calls_per_slot * limit)
        self._total = 0.0
        self._squares = 0.0

    def add(self, seconds: float) -> None:
        value = log(max(_MIN_S, seconds))
        self.calls += 1
        self._total += value
        self._squares += value * value

    @property
    def is_known(self) -> bool:
        """Whether there were calls enough to judge it by."""
        return self.calls >= self._enough_calls and self.is_used

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
