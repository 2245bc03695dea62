"""Lanes: the requests for one key, such as one model of one provider, and which of all waiting requests starts next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from graphmill.core.result import Failure, Kind
from graphmill.core.usage import NO_USAGE
from graphmill.engine.policy import Policy
from graphmill.engine.results.statistics import Share
from graphmill.engine.scheduling.adaptive import Controller
from graphmill.engine.scheduling.health import ALL_REFUSED, CLOSED, Health
from graphmill.engine.scheduling.rate_limits import Limits, RateLimiter

if TYPE_CHECKING:
    from graphmill.core.usage import Usage
    from graphmill.engine.jobs.state import JobState, StepState
    from graphmill.engine.scheduling.adaptive import Stamp
    from graphmill.engine.scheduling.rate_limits import Reservation

PRIORITY_S = 60.0
WORKERS = "worker processes"  # the lane of steps that run in one
_NESTED, _STEP = 0, 1  # nested calls go before steps: their job holds a slot already
_REFUSALS_IN_A_ROW = 3  # refusals without an answer in between: then the requested wait applies to everybody
_MAX_GATE_S = 60.0
_RETRY_AFTER = "the server's Retry-After"
_ANSWER = "an answer"
_RECENT_S = 60.0
_MIN_CALLS = 10  # fewer say nothing
_STORM_SHARE = 0.25  # the share of refusals worth reporting
_UNUSED_KINDS = frozenset({Kind.THROTTLED, Kind.UNAVAILABLE, Kind.PERMANENT})  # what any other failure used is unknown
_THROTTLED = Kind.THROTTLED  # a global is found faster than a member
_RAISED_BY_USER = "graphmill.Unavailable"
_MAX_IDLE_LANES = 100
_MAX_TROUBLES = 3


def rank(*, admitted_at: float, priority: int) -> float:
    """Return a job's rank: smallest first. One step of priority is worth a minute of waiting, so nothing starves."""
    return admitted_at - PRIORITY_S * priority


class SlotRequest:
    """A request for a slot in a lane and, once granted, the slot. ``owner`` asks; nested calls have none."""

    # fmt: off
    __slots__ = (
        "estimate", "estimated_tokens", "is_call", "is_probe", "lane", "order", "owner", "position", "rank",
        "reservation", "settled_usage", "stamp", "usage",
    )
    # fmt: on

    def __init__(
        self, lane: Lane, rank: float, position: int, owner: JobState | StepState | None, *, is_call: bool = False
    ) -> None:
        self.lane = lane
        self.rank = rank
        self.position = position
        self.owner = owner
        self.order = _NESTED if owner is None else _STEP
        self.is_call = is_call  # counted by the rate limits of its lane
        self.estimate: Callable[[], int] | None = None  # of its tokens, until somebody needs it
        self.estimated_tokens = 0
        self.is_probe = False
        self.stamp: Stamp = (0, 0.0)  # of the adaptive limit
        self.reservation: Reservation | None = None
        self.usage: Usage | None = None
        self.settled_usage = NO_USAGE  # the part of its usage that earlier calls in this slot have settled


class RequestQueue:
    """Requests by rank, then by position; a retry keeps its job's rank and so overtakes work that has not started."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, float, int, SlotRequest]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[SlotRequest]:
        return (entry[3] for entry in self._heap)

    @property
    def first(self) -> SlotRequest | None:
        """The next request, if one waits."""
        return self._heap[0][3] if self._heap else None

    @property
    def first_key(self) -> tuple[int, float, int] | None:
        """Where the next request sorts."""
        return self._heap[0][:3] if self._heap else None

    def is_behind(self, request: SlotRequest) -> bool:
        """Whether everything that waits comes after this request."""
        return not self._heap or (request.order, request.rank, request.position) < self._heap[0][:3]

    def push(self, request: SlotRequest) -> None:
        """Add a request."""
        heappush(self._heap, (request.order, request.rank, request.position, request))

    def pop(self) -> SlotRequest:
        """Remove and return the next request."""
        return heappop(self._heap)[3]

    def remove(self, request: SlotRequest) -> None:
        """Remove one request, wherever it is."""
        self._heap.remove((request.order, request.rank, request.position, request))
        heapify(self._heap)

    def clear_steps(self) -> None:
        """Remove all requests but nested calls: their attempts are running and may still end well."""
        self._heap = [entry for entry in self._heap if entry[0] == _NESTED]
        heapify(self._heap)


class LaneWait(NamedTuple):
    """What calls wait for, and how long the next of them has to; None if unknown."""

    reason: str
    next_s: float | None


class Refusals:
    """Recent refusals of one lane, and the wait they ask for: pure."""

    __slots__ = ("_at", "_in_a_row", "_message", "_retry_at", "gated_until")

    def __init__(self) -> None:
        self._at = self._retry_at = -inf
        self._in_a_row = 0
        self._message = ""
        self.gated_until = 0.0

    def add(self, failure: Failure, message: str, now: float, succeeded_at: float) -> None:
        """Count a refusal. After several in a row, nothing starts before the requested wait is over."""
        if succeeded_at >= self._at:
            self._in_a_row = 0
        self._in_a_row += 1
        self._at, self._message = now, message
        if failure.retry_after_s is None:
            return
        at = now + failure.retry_after_s
        if self._retry_at > now:
            at = min(self._retry_at, at)
        self._retry_at = at
        if self._in_a_row >= _REFUSALS_IN_A_ROW:
            self.gated_until = max(self.gated_until, now + min(failure.retry_after_s, _MAX_GATE_S))

    def wait(self, now: float) -> LaneWait | None:
        """Return the wait that refused calls still have, if any."""
        if self._retry_at <= now:
            return None
        return LaneWait(_RETRY_AFTER, self._retry_at - now)

    def describe(self, now: float, succeeded_at: float, throttled: Share) -> str:
        """Describe recent refusals; empty if there are few."""
        if now - self._at > _RECENT_S:
            return ""
        if self._in_a_row >= _REFUSALS_IN_A_ROW and succeeded_at < self._at:
            return f"{ALL_REFUSED}{self._in_a_row:,} calls refused: {self._message}"
        count, share = throttled.count, throttled.value
        if count < _MIN_CALLS or share < _STORM_SHARE:
            return ""
        return f"throttled, {share * count:.0f} of the last {count:,} calls refused: {self._message}"


class Ceiling:
    """The highest limit a lane may have: as a user sets it, and never above the server's own."""

    __slots__ = ("as_set", "of_server")

    def __init__(self, as_set: int) -> None:
        self.as_set = as_set
        self.of_server: int | None = None  # from settings

    @property
    def lowest(self) -> int:
        """The lower of the two."""
        return min(self.as_set, self.of_server or self.as_set)


class Lane:
    """The requests of one key: those waiting for a slot, how many may run, and their dependency's health."""

    # fmt: off
    __slots__ = (
        "_ceiling", "_controller", "_refusals", "health", "key", "limit", "members", "queue",
        "rate_limiter", "reason", "running", "succeeded_at", "throttled",
    )
    # fmt: on

    def __init__(self, key: str, *, limit: int, is_adaptive: bool, park_after_s: float | None) -> None:
        self.key = key
        self.queue = RequestQueue()
        self.members = 0  # jobs, steps and calls that belong to it now; an idle lane can be dropped
        self.running = 0
        self.succeeded_at = -inf
        self.throttled = Share()
        self.health = Health(park_after_s)
        self.rate_limiter: RateLimiter | None = None
        self._refusals = Refusals()
        self._ceiling = Ceiling(limit)
        self._controller: Controller | None = None
        self.limit = limit
        self.reason = "as set"
        if is_adaptive:
            self.adapt()

    @property
    def trouble(self) -> str:
        """Why it is unavailable, with its name."""
        return self._with_key(self.health.reason)

    def _with_key(self, reason: str) -> str:
        if self.key and not reason.startswith(self.key):
            return f"{self.key}: {reason}"
        return reason

    @property
    def is_adaptive(self) -> bool:
        """Whether its limit is found at run time."""
        return self._controller is not None

    def adapt(self) -> None:
        """Find the limit from now on, below the ceiling and the server's own limit."""
        self._controller = Controller(ceiling=self._ceiling.lowest)
        self.limit, self.reason = self._controller.limit, self._controller.reason

    def set_limit(self, limit: int, *, is_adaptive: bool) -> None:
        """Set the ceiling of an adaptive limit, or the limit itself. It never exceeds the server's own limit."""
        self._ceiling.as_set = limit
        if not is_adaptive:
            self._controller = None
            self.limit, self.reason = self._ceiling.lowest, "as set"
        elif self._controller is None:
            self.adapt()
        else:
            self._controller.change_ceiling(self._ceiling.lowest)
            self.limit, self.reason = self._controller.limit, "as set"

    def apply_limits(self, limits: Limits, limiter: RateLimiter) -> None:
        """Apply the known limits of the server."""
        self.rate_limiter = limiter
        self._ceiling.of_server = limits.concurrency
        if limits.concurrency is None:
            return
        if self._controller is not None:
            self.adapt()
        self.limit = min(self.limit, limits.concurrency)

    # -- when the next may start ---------------------------------------------------------------------------------------

    def opens_at(self, now: float, request: SlotRequest | None = None) -> float | None:
        """Return when its next request, or this one, may start; None while something else has to end first."""
        if self.running >= self.limit:
            return None
        return self._opens_at(request or self.queue.first, now)

    def can_start_now(self, request: SlotRequest, now: float) -> bool:
        """Whether a request that is not in the queue may start at once: nothing comes before it, and it is no probe."""
        if self.running >= self.limit or self.health.state is not CLOSED or not self.queue.is_behind(request):
            return False
        at = self._opens_at(request, now)
        return at is not None and at <= now

    def _opens_at(self, first: SlotRequest | None, now: float) -> float | None:
        health = self.health
        is_of_probe = first is not None and first.is_probe  # a nested call of the probe: nobody else waits as one
        at = 0.0 if health.state is CLOSED or is_of_probe else health.opens_at()
        if at is None:
            return None
        at = max(at, self._gate)
        if self.rate_limiter is None or at > now or first is None or not first.is_call:
            return at
        return self.rate_limiter.opens_at(_tokens(first, self.rate_limiter))

    @property
    def _gate(self) -> float:
        """When the wait ends that the server asked for."""
        if self._controller is None:
            return self._refusals.gated_until
        return max(self._refusals.gated_until, self._controller.gated_until)

    def wait(self, now: float, *, has_slot: bool, has_retries: bool) -> LaneWait | None:
        """Return what waiting calls that have a slot wait for, or what refused ones wait for by themselves."""
        first = self.queue.first
        if first is None or not first.is_call or (first.order != _NESTED and not has_slot):
            if self.running or not has_retries:
                return None
            return self._refusals.wait(now)
        if self.running and self.running >= self.limit:
            return None
        if self.health.state is not CLOSED:
            at = self.health.opens_at()
            return LaneWait(_ANSWER, None if at is None else max(0.0, at - now))
        if self._gate > now:
            return LaneWait(_RETRY_AFTER, self._gate - now)
        if self.rate_limiter is None:
            return None
        estimated_tokens = _tokens(first, self.rate_limiter)
        wait_s = self.rate_limiter.opens_at(estimated_tokens) - now
        if wait_s <= 0.0:
            return None
        return LaneWait(self.rate_limiter.limit_text(estimated_tokens), wait_s)

    def refusals(self, now: float) -> str:
        """Describe recent refusals; empty if there are few."""
        return self._refusals.describe(now, self.succeeded_at, self.throttled)

    # -- slots ---------------------------------------------------------------------------------------------------------

    @property
    def can_keep_slot(self) -> bool:
        """Whether a step's slot may serve the next step of its branch as well."""
        is_plain = self._controller is None and self.rate_limiter is None and not self._refusals.gated_until
        return is_plain and self.running <= self.limit and self.health.state is CLOSED

    def note_success(self, now: float) -> None:
        """Learn from a step that went well and whose slot is kept."""
        self.succeeded_at = now
        self.throttled.add(hit=False)

    def start(self, request: SlotRequest, now: float) -> None:
        """Grant a slot."""
        self.running += 1
        request.is_probe = self.health.state is not CLOSED and self.health.started()
        if self.rate_limiter is not None and request.is_call:
            request.settled_usage = request.usage or NO_USAGE
            request.reservation = self.rate_limiter.reserve(now, _tokens(request, self.rate_limiter))
        if self._controller is not None:
            request.stamp = self._controller.started(now)

    def end(self, request: SlotRequest, failure: Failure | None, now: float) -> None:
        """Take a slot back and learn from how the attempt went; None means well."""
        self.running -= 1
        kind = retry_after_s = None
        if failure is not None:
            kind, retry_after_s = failure.kind, failure.retry_after_s
        else:
            self.succeeded_at = now
            self._refusals.gated_until = 0.0
        self.throttled.add(hit=kind is _THROTTLED)
        if request.reservation is not None:
            self._settle(request, kind)
        if kind is _THROTTLED and failure is not None and request.is_call:
            self._refusals.add(failure, self._with_key(failure.message), now, self.succeeded_at)
        if failure is not None or self.health.state is not CLOSED:
            is_proven = self.succeeded_at > -inf or not _is_of_set_up(request, failure)
            self.health.ended(failure, now, is_probe=request.is_probe, is_proven=is_proven)
        if self._controller is not None:
            self._controller.ended(request.stamp, now, kind, retry_after_s)
            self.limit, self.reason = self._controller.limit, self._controller.reason

    @contextmanager
    def lend_slot(self, slot: SlotRequest | None) -> Iterator[None]:
        """While a nested call runs, free the slot of the attempt that makes it, if that is in this lane too."""
        count = int(slot is not None and slot.lane is self)
        self.running -= count
        try:
            yield
        finally:
            self.running += count

    def end_call(self, request: SlotRequest, now: float) -> None:
        """End one answered call of an attempt that is about to make another: the slot is free until ``resume_call``."""
        self._settle(request, None)
        self.end(request, None, now)

    def resume_call(self, request: SlotRequest, now: float) -> None:
        """Occupy the slot again for an attempt that makes no other call."""
        self.running += 1
        if self._controller is not None:
            request.stamp = self._controller.started(now)

    def _settle(self, request: SlotRequest, kind: Kind | None) -> None:
        """Return the unused part of a reservation. Unknown usage counts as reserved, unless surely refused."""
        reservation, request.reservation = request.reservation, None
        before, usage = request.settled_usage, request.usage or NO_USAGE
        request.settled_usage = usage
        if reservation is None or self.rate_limiter is None:
            return
        used = usage.tokens - before.tokens
        if not used and kind is None and request.usage is not None and usage.requests == before.requests:
            self.rate_limiter.cancel(reservation)  # the response was cached
        elif used or kind in _UNUSED_KINDS:
            self.rate_limiter.settle(reservation, used)
        else:
            self.rate_limiter.settle(reservation, reservation.tokens)


def _is_of_set_up(request: SlotRequest, failure: Failure | None) -> bool:
    """Whether a failure says what a wrong key, name or address says; a function's own may mean anything."""
    if failure is None or failure.kind is not Kind.UNAVAILABLE:
        return False
    return request.is_call or failure.type != _RAISED_BY_USER


def _tokens(request: SlotRequest, limiter: RateLimiter) -> int:
    """Return how many tokens a call may use; an estimate reads its whole prompt, so only token limits ask."""
    if not limiter.counts_tokens:
        return 0
    if request.estimate is not None:
        request.estimated_tokens, request.estimate = request.estimate(), None
    return request.estimated_tokens


class Lanes:
    """All lanes of a run. Steps compete for the run's slots by rank; nested calls only within their lane."""

    def __init__(self, policy: Policy, limit: int) -> None:
        self._policy = policy
        self._limit = limit
        self._adaptive = policy.adaptive
        self._park_after_s = policy.park_after_s
        self._by_key: dict[str, Lane] = {}
        self._idle: dict[str, Lane] = {}
        # Where the first request of each lane sorts, and the lane's key; outdated entries are skipped.
        self._heads: list[tuple[int, float, int, str]] = []
        self._rate_limiters: list[RateLimiter] = []
        self.clock: Callable[[], float] | None = (
            None  # with one, rate limits are shared with the other runs of the process
        )

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._by_key.values())

    def get(self, key: str, limits: Limits | None = None, *, is_call: bool = False) -> Lane:
        """Return the lane of a key, which now respects these limits. That of model calls adapts by default."""
        lane = self._by_key.get(key) or self._add(key)
        if is_call and self._adaptive is None and not lane.is_adaptive:
            lane.adapt()
        if limits is not None and lane.rate_limiter is None:
            self.apply_limits(lane, limits)
        return lane

    def apply_limits(self, lane: Lane, limits: Limits) -> None:
        """Apply limits to a lane."""
        if self.clock is None:
            limiter = RateLimiter(limits)
        else:
            limiter = RateLimiter.for_account(limits, self.clock)
        self._rate_limiters.append(limiter)
        lane.apply_limits(limits, limiter)

    def set_limit(self, limit: int, adaptive: bool | None) -> None:  # noqa: FBT001
        """Set the limit of every lane, and whether they adapt; None changes nothing in that."""
        self._limit = limit
        if adaptive is not None:
            self._adaptive = adaptive
        for lane in self:
            lane_limit = self._limit_of(lane.key)
            lane.set_limit(lane_limit, is_adaptive=lane.is_adaptive if adaptive is None else adaptive)

    def join(self, lane: Lane) -> None:
        """Count one more member of a lane."""
        if not lane.members:
            self._idle.pop(lane.key, None)
        lane.members += 1

    def leave(self, lane: Lane) -> None:
        """Count one member less."""
        lane.members -= 1
        if not lane.members:
            self._idle[lane.key] = lane

    def push(self, request: SlotRequest) -> None:
        """Queue a request in its lane."""
        lane = request.lane
        lane.queue.push(request)
        if lane.queue.first is request:
            heappush(self._heads, (request.order, request.rank, request.position, lane.key))

    def remove(self, request: SlotRequest) -> None:
        """Remove a queued request."""
        request.lane.queue.remove(request)
        self._push_head(request.lane)

    def clear_steps(self) -> None:
        """Remove all queued requests but nested calls."""
        self._heads.clear()
        for lane in self:
            lane.queue.clear_steps()
            self._push_head(lane)

    def pop_next(self, now: float, *, has_slot: bool) -> SlotRequest | None:
        """Remove and return the next request that may start: a nested call, or a step if the run has a slot for it."""
        heads, closed, found = self._heads, [], None
        while heads and found is None and (has_slot or heads[0][0] == _NESTED):
            head = heappop(heads)
            lane = self._by_key.get(head[3])
            if lane is None or lane.queue.first_key != head[:3]:
                continue
            at = lane.opens_at(now)
            if at is None or at > now:
                closed.append(head)
            else:
                found = lane.queue.pop()
                self._push_head(lane)
        for head in closed:
            heappush(heads, head)
        return found

    def opens_at(self, now: float, *, has_slot: bool) -> float | None:
        """Return when a lane that now lets nothing start will do so by itself; None if none will."""
        first: float | None = None
        for lane in self._by_key.values():
            request = lane.queue.first
            if request is None or not (has_slot or request.order == _NESTED):
                continue
            at = lane.opens_at(now)
            if at is not None and at > now and (first is None or at < first):
                first = at
        return first

    def has_step_before(self, request: SlotRequest) -> bool:
        """Whether a step waits that comes before this one."""
        heads, key = self._heads, (request.order, request.rank, request.position, "")
        while heads and heads[0] < key:
            if self._is_current(heads[0]):
                if heads[0][0] == _STEP:
                    return True
                return any(head[0] == _STEP and head < key and self._is_current(head) for head in heads)
            heappop(heads)
        return False

    def close(self) -> None:
        """Settle the open reservations of the run."""
        for limiter in self._rate_limiters:
            limiter.close()

    def troubles(self, now: float) -> list[str]:
        """Describe what is unavailable or refuses calls."""
        found = [lane.refusals(now) if lane.health.is_closed else lane.trouble for lane in self]
        troubles = list(filter(None, found))
        if len(troubles) > _MAX_TROUBLES:
            return [*troubles[:_MAX_TROUBLES], f"and {len(troubles) - _MAX_TROUBLES:,} more"]
        return troubles

    def _is_current(self, head: tuple[int, float, int, str]) -> bool:
        lane = self._by_key.get(head[3])
        return lane is not None and lane.queue.first_key == head[:3]

    def _push_head(self, lane: Lane) -> None:
        if first := lane.queue.first:
            heappush(self._heads, (first.order, first.rank, first.position, lane.key))

    def _add(self, key: str) -> Lane:
        if len(self._idle) > _MAX_IDLE_LANES:
            oldest = next(iter(self._idle))
            del self._idle[oldest], self._by_key[oldest]
        limit = self._limit_of(key)
        lane = Lane(key, limit=limit, is_adaptive=bool(self._adaptive), park_after_s=self._park_after_s)
        self._by_key[key] = lane
        return lane

    def _limit_of(self, key: str) -> int:
        return min(self._limit, self._policy.worker_limit) if key == WORKERS else self._limit
