"""A lane: the jobs that depend on one thing, such as one model of one provider."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from graphmill.core.result import Failure, Kind
from graphmill.core.usage import NO_USAGE, Usage
from graphmill.engine.adaptive import Controller
from graphmill.engine.health import CLOSED, Health
from graphmill.engine.progress import ALL_REFUSED
from graphmill.engine.queue import ReadyQueue
from graphmill.engine.rate_limits import Limits, RateLimiter
from graphmill.engine.share import Share
from graphmill.engine.ticket import Ticket

if TYPE_CHECKING:
    from graphmill.engine.visit import Visit

_IN_A_ROW = 3  # refusals without an answer in between: then the wait that is asked for is everybody's
_MOST_GATE_S = 60.0
_ASKED = "the retry-after of its refusal"
_OF_LATE_S = 60.0
_FEWEST = 10  # calls that tell something
_STORM = 0.25  # the share of refusals that is worth to be told
_ANSWER = "an answer"
_NOT_USED = frozenset({Kind.THROTTLED, Kind.UNAVAILABLE, Kind.PERMANENT})  # of all else nobody knows what it has used
_THROTTLED = Kind.THROTTLED  # a global is found faster than a member


class Wait(NamedTuple):
    """What calls wait for, in words, and how long the next of them still has to; None where nobody knows."""

    what: str
    next_s: float | None


class Lane:
    """The jobs of one key: those that wait for a slot, how many may run at once, and the health of what they depend on."""

    __slots__ = (
        "_ceiling",
        "_controller",
        "_gated_until",
        "_in_a_row",
        "_known",
        "_refusal",
        "_retry_at",
        "_throttled_at",
        "guests",
        "health",
        "jobs",
        "key",
        "limit",
        "pace",
        "queue",
        "reason",
        "running",
        "succeeded_at",
        "throttled",
    )

    def __init__(self, key: str, *, limit: int, is_adaptive: bool, park_after_s: float) -> None:
        self.key = key
        self.queue: ReadyQueue[Ticket] = ReadyQueue()
        self.guests: ReadyQueue[Visit] = ReadyQueue()  # calls from inside of attempts that hold a slot elsewhere
        self.jobs = 0
        self.running = 0
        self.succeeded_at = -inf
        self.throttled = Share()
        self.health = Health(park_after_s)
        self.pace: RateLimiter | None = None
        self._gated_until = 0.0
        self._in_a_row = 0
        self._throttled_at = self._retry_at = -inf
        self._refusal = ""  # the last
        self._ceiling = limit
        self._known: int | None = None
        self._controller = Controller(ceiling=limit) if is_adaptive else None
        self.limit = limit if self._controller is None else self._controller.limit
        self.reason = "as set" if self._controller is None else self._controller.reason

    @property
    def trouble(self) -> str:
        """What is wrong with what it depends on, and with which; a reason that begins with the name names it already."""
        return self._named(self.health.reason)

    def _named(self, reason: str) -> str:
        return f"{self.key}: {reason}" if self.key and not reason.startswith(self.key) else reason

    def fix(self, limit: int) -> None:
        """Set the limit by hand; from now on it does not adapt. It is never above what is known of the other side."""
        self._controller = None
        self.limit, self.reason = min(limit, self._known or limit), "as set"

    def keep_to(self, limits: Limits, pace: RateLimiter) -> None:
        """Keep to what is known of the other side, from now on."""
        self.pace = pace
        self._known = limits.concurrency
        if self._known is not None and self._controller is not None:
            self._controller = Controller(ceiling=min(self._ceiling, self._known))
            self.limit = self._controller.limit
        self.limit = min(self.limit, self._known or self.limit)

    def opens_at(self, now: float) -> float | None:
        """Tell from when on its next job may start; None while that depends on what ends first."""
        return None if self.running >= self.limit else self._paced_at(None, now)

    def lets_in(self, ticket: Ticket, now: float) -> bool:
        """Tell whether a ticket that does not wait here may start at once: nothing comes before it, and it is no probe."""
        if self.running >= self.limit or self.guests or not self.health.is_closed or not self.queue.is_behind(ticket):
            return False
        at = self._paced_at(ticket, now)
        return at is not None and at <= now

    def _paced_at(self, ticket: Ticket | None, now: float) -> float | None:
        at = self.health.opens_at()
        if at is not None:
            at = max(at, self._gate)
        if self.pace is None or at is None or at > now:
            return at
        first = ticket or self.guests.first or self.queue.first
        return self.pace.opens_at(_weight(first, self.pace)) if first is not None and first.is_call else at

    @property
    def _gate(self) -> float:
        """Until when nothing starts because the other side has asked for it."""
        return self._gated_until if self._controller is None else max(self._gated_until, self._controller.gated_until)

    def wait(self, now: float, *, has_slot: bool, has_retries: bool) -> Wait | None:
        """Tell what calls wait for that are not let in though there is a slot for them, if any do; or, refused, by themselves."""
        first = self.guests.first or (self.queue.first if has_slot else None)
        if first is None or not first.is_call:
            is_asked = has_retries and not self.running and self._retry_at > now
            return Wait(_ASKED, self._retry_at - now) if is_asked else None
        return None if self.running and self.running >= self.limit else self._wait_of(first, now)

    def _wait_of(self, first: Ticket, now: float) -> Wait | None:
        if not self.health.is_closed:
            at = self.health.opens_at()
            return Wait(_ANSWER, None if at is None else max(0.0, at - now))
        if self._gate > now:
            return Wait(_ASKED, self._gate - now)
        if self.pace is None or (wait_s := self.pace.opens_at(weight := _weight(first, self.pace)) - now) <= 0.0:
            return None
        return Wait(self.pace.limit_text(weight), wait_s)

    def refusals(self, now: float) -> str:
        """Tell that calls are refused of late, how many, and with what words; empty if they are few."""
        if now - self._throttled_at > _OF_LATE_S:
            return ""
        if self._in_a_row >= _IN_A_ROW and self.succeeded_at < self._throttled_at:
            return f"{ALL_REFUSED}{self._in_a_row:,} calls refused: {self._refusal}"
        count, share = self.throttled.count, self.throttled.value
        if count < _FEWEST or share < _STORM:
            return ""
        return f"throttled, {share * count:.0f} of the last {count:,} calls refused: {self._refusal}"

    @property
    def is_free(self) -> bool:
        """Whether whoever holds one of its slots may keep it."""
        is_plain = self._controller is None and self.pace is None and not self._gated_until
        return is_plain and self.running <= self.limit and self.health.state is CLOSED

    def went_well(self, now: float) -> None:
        """Learn from an attempt that went well and whose slot is kept."""
        self.succeeded_at = now
        self.throttled.add(hit=False)

    def start(self, ticket: Ticket, now: float) -> None:
        """Give a ticket one of its slots."""
        self.running += 1
        ticket.is_probe = not self.health.is_closed and self.health.started()
        if self.pace is not None and ticket.is_call:
            used = _used(ticket)
            ticket.reserved, ticket.spent, ticket.asked = (
                self.pace.reserve(now, _weight(ticket, self.pace)),
                used.tokens,
                used.requests,
            )
        if self._controller is not None:
            ticket.stamp = self._controller.started(now)

    def end(self, ticket: Ticket, failure: Failure | None, now: float) -> None:
        """Take the slot back, and learn from how the attempt went; None means well."""
        self.running -= 1
        kind = None if failure is None else failure.kind
        if failure is None:
            self.succeeded_at, self._gated_until = now, 0.0
        self.throttled.add(hit=kind is _THROTTLED)
        if ticket.reserved is not None:
            self._settle(ticket, _used(ticket).tokens, kind)
        if kind is _THROTTLED and failure is not None and ticket.is_call:
            self._refused(failure, now)
        if failure is not None or not self.health.is_closed:
            self.health.ended(failure, now, is_probe=ticket.is_probe)
        if self._controller is not None:
            self._controller.ended(ticket.stamp, now, kind, None if failure is None else failure.retry_after_s)
            self.limit, self.reason = self._controller.limit, self._controller.reason

    @contextmanager
    def lent(self, host: Ticket) -> Iterator[None]:
        """Let a call have the slot of the job that makes it, if that is of this lane too."""
        count = int(host.lane is self)
        self.running -= count
        try:
            yield
        finally:
            self.running += count

    def rest(self, ticket: Ticket, used: int, now: float) -> None:
        """Take the slot of a ticket back for a while: one call of its attempt was answered, and there is to be another."""
        self._settle(ticket, used, None)
        ticket.spent = used
        self.end(ticket, None, now)

    def go_on(self, ticket: Ticket, now: float) -> None:
        """Give a ticket its slot back for which nothing more is asked."""
        self.running += 1
        if self._controller is not None:
            ticket.stamp = self._controller.started(now)

    def _settle(self, ticket: Ticket, tokens: int, kind: Kind | None) -> None:
        """Give back what a call has not used; where nothing is told of it, it counts as it was reserved, unless it was surely refused."""
        reserved, ticket.reserved, used = ticket.reserved, None, tokens - ticket.spent
        if reserved is None or self.pace is None:
            return
        if not used and kind is None and ticket.usage is not None and ticket.usage.requests == ticket.asked:
            self.pace.cancel(reserved)  # the answer was known
        else:
            self.pace.settle(reserved, used if used or kind in _NOT_USED else reserved.tokens)

    def _refused(self, failure: Failure, now: float) -> None:
        """Let nothing start for the wait that is asked for once several were refused and none was answered; an answer ends it."""
        self._in_a_row = self._in_a_row + 1 if self.succeeded_at < self._throttled_at else 1
        self._throttled_at, self._refusal = now, self._named(failure.message)
        if failure.retry_after_s is not None:
            at = now + failure.retry_after_s
            self._retry_at = min(self._retry_at, at) if self._retry_at > now else at
        if self._in_a_row >= _IN_A_ROW and failure.retry_after_s is not None:
            self._gated_until = max(self._gated_until, now + min(failure.retry_after_s, _MOST_GATE_S))


def _used(ticket: Ticket) -> Usage:
    return ticket.usage or NO_USAGE


def _weight(ticket: Ticket, pace: RateLimiter) -> int:
    return ticket.weight if pace.counts_tokens else 0
