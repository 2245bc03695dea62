"""The lanes of a run, one for each key: what waits in them, and which of them is the next that lets something start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from graphmill.core.result import RUNNING, Failure
from graphmill.engine.lane import Lane
from graphmill.engine.policy import Policy
from graphmill.engine.rate_limits import Limits, RateLimiter
from graphmill.engine.ticket import Ticket
from graphmill.engine.visit import Visit

_MOST_IDLE = 100
_MOST_TOLD = 3


class Lanes:
    """Tickets wait by rank across all lanes; calls from inside of attempts, which hold a slot elsewhere, only for their own lane."""

    def __init__(self, policy: Policy, limit: int) -> None:
        self._limit = limit
        self._is_adaptive = bool(policy.adaptive)
        self._park_after_s = policy.park_after_s
        self._by_key: dict[str, Lane] = {}
        self._idle: dict[str, Lane] = {}
        self._heads: list[
            tuple[float, int, str]
        ] = []  # of each lane its first ticket's rank and position; stale ones are passed over
        self._visited: dict[str, Lane] = {}  # those in which calls wait
        self.pace_of: Callable[[Limits], RateLimiter] = RateLimiter

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._by_key.values())

    def of(self, key: str) -> Lane:
        """Give the lane of a key."""
        return self._by_key.get(key) or self._new(key)

    def kept_to(self, key: str, limits: Limits | None) -> Lane:
        """Give the lane of a key, which keeps to these limits from now on."""
        lane = self._by_key.get(key) or self._new(key)
        if limits is not None and lane.pace is None:
            self.pace(lane, limits)
        return lane

    def pace(self, lane: Lane, limits: Limits) -> None:
        """Give a lane a pace."""
        lane.keep_to(limits, self.pace_of(limits))

    def fix(self, limit: int) -> None:
        """Set the limit of each by hand; nothing adapts from now on."""
        self._limit = limit
        self._is_adaptive = False
        for lane in self:
            lane.fix(limit)

    def join(self, lane: Lane) -> None:
        """Count one more that depends on a lane."""
        if not lane.jobs:
            self._idle.pop(lane.key, None)
        lane.jobs += 1

    def quit(self, lane: Lane) -> None:
        """Count one less."""
        lane.jobs -= 1
        if not lane.jobs:
            self._idle[lane.key] = lane

    def push(self, lane: Lane, ticket: Ticket) -> None:
        """Let a ticket wait."""
        lane.queue.push(ticket)
        if lane.queue.is_first(ticket.rank, ticket.position):
            heappush(self._heads, (ticket.rank, ticket.position, lane.key))

    def pop(self, lane: Lane) -> Ticket:
        """Give the first that waits in a lane."""
        ticket = lane.queue.pop()
        self._show_first(lane)
        return ticket

    def remove(self, ticket: Ticket) -> None:
        """Take out a ticket that waits."""
        ticket.lane.queue.remove(ticket)
        self._show_first(ticket.lane)

    def clear(self) -> None:
        """Let no ticket wait any more."""
        for lane in self:
            lane.queue.clear()
        self._heads.clear()

    def first_open(self, now: float) -> Lane | None:
        """Find the lane whose first ticket is the next to start, and take its head."""
        heads, closed, found = self._heads, [], None
        while heads and found is None:
            head = heappop(heads)
            lane = self._by_key.get(head[2])
            if lane is not None and lane.queue.is_first(head[0], head[1]):
                at = lane.opens_at(now)
                if at is None or at > now:
                    closed.append(head)
                else:
                    found = lane
        for head in closed:
            heappush(heads, head)
        return found

    def opens_at(self, now: float, *, is_for_tickets: bool) -> float | None:
        """Tell when a lane that now lets nothing start will do so by itself; None if none will."""
        if not is_for_tickets and not self._visited:
            return None
        lanes = [lane for lane in self if lane.queue] if is_for_tickets else []
        times = [
            at for lane in (*lanes, *self._visited.values()) if (at := lane.opens_at(now)) is not None and at > now
        ]
        return min(times, default=None)

    def troubles(self, now: float) -> list[str]:
        """Tell what is wrong with what the lanes depend on: it does not answer, or refuses."""
        found = (lane.refusals(now) if lane.health.is_closed else lane.trouble for lane in self)
        told = list(filter(None, found))
        return [*told[:_MOST_TOLD], *([f"and {len(told) - _MOST_TOLD:,} more"] if len(told) > _MOST_TOLD else [])]

    def has_before(self, ticket: Ticket) -> bool:
        """Tell whether something waits that comes before this."""
        heads, mine = self._heads, (ticket.rank, ticket.position, "")
        while heads and (first := heads[0]) < mine:
            lane = self._by_key.get(first[2])
            if lane is not None and lane.queue.is_first(first[0], first[1]):
                return True
            heappop(heads)
        return False

    def let_in(self, visit: Visit, now: float) -> bool:
        """Let a call begin in its lane, in the slot that its job has; or let it wait there. Tell whether it begins."""
        lane = visit.lane
        self.join(lane)
        lane.guests.push(visit)
        at = lane.opens_at(now) if lane.guests.first is visit else None
        if at is None or at > now:
            self._visited[lane.key] = lane
            return False
        self._begin(lane, now)
        return True

    def next_guest(self, now: float) -> Visit | None:
        """Let the first call begin that may."""
        if not self._visited:
            return None
        open_ones = (lane for lane in self._visited.values() if (at := lane.opens_at(now)) is not None and at <= now)
        lane = min(open_ones, key=lambda lane: lane.guests.first.rank if lane.guests.first else 0.0, default=None)
        return None if lane is None else self._begin(lane, now)

    def turn_away(self, visit: Visit) -> None:
        """Forget a call that waits no more."""
        visit.lane.guests.remove(visit)
        self._forget_unvisited(visit.lane)
        self.quit(visit.lane)

    def see_out(self, visit: Visit, failure: Failure | None, now: float) -> None:
        """End a call; its lane learns from how it went."""
        visit.lane.end(visit, failure, now)
        self.quit(visit.lane)

    def stand_in(self, visit: Visit, ticket: Ticket) -> None:
        """Let a call go on as another one of a ticket that has made some before."""
        ticket.reserved, ticket.stamp, ticket.is_probe = visit.reserved, visit.stamp, visit.is_probe
        self.quit(visit.lane)

    def _begin(self, lane: Lane, now: float) -> Visit:
        visit = lane.guests.pop()
        self._forget_unvisited(lane)
        visit.status = RUNNING
        lane.start(visit, now)
        return visit

    def _forget_unvisited(self, lane: Lane) -> None:
        if not lane.guests:
            self._visited.pop(lane.key, None)

    def _show_first(self, lane: Lane) -> None:
        if first := lane.queue.first:
            heappush(self._heads, (first.rank, first.position, lane.key))

    def _new(self, key: str) -> Lane:
        if len(self._idle) > _MOST_IDLE:
            idlest = next(iter(self._idle))
            del self._idle[idlest], self._by_key[idlest]
        lane = self._by_key[key] = Lane(
            key, limit=self._limit, is_adaptive=self._is_adaptive, park_after_s=self._park_after_s
        )
        return lane
