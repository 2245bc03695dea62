"""A lane: the jobs that depend on one thing, such as one model of one provider."""

from __future__ import annotations

from math import inf

from graphmill.core.result import Failure, Kind
from graphmill.engine.adaptive import Controller
from graphmill.engine.health import CLOSED, Health
from graphmill.engine.pace import Limits, Pace
from graphmill.engine.queue import ReadyQueue
from graphmill.engine.share import Share
from graphmill.engine.ticket import Ticket

_THROTTLED = Kind.THROTTLED  # a global is found faster than a member


class Lane:
    """The jobs of one key: those that wait for a slot, how many may run at once, and the health of what they depend on."""

    __slots__ = (
        "_ceiling",
        "_controller",
        "_known",
        "_pace",
        "health",
        "jobs",
        "key",
        "limit",
        "queue",
        "reason",
        "running",
        "succeeded_at",
        "throttled",
    )

    def __init__(self, key: str, *, limit: int, is_adaptive: bool, park_after_s: float) -> None:
        self.key = key
        self.queue = ReadyQueue()
        self.jobs = 0
        self.running = 0
        self.succeeded_at = -inf
        self.throttled = Share()
        self.health = Health(park_after_s)
        self._pace: Pace | None = None
        self._ceiling = limit
        self._known: int | None = None
        self._controller = Controller(ceiling=limit) if is_adaptive else None
        self.limit = limit if self._controller is None else self._controller.limit
        self.reason = "as set" if self._controller is None else self._controller.reason

    def fix(self, limit: int) -> None:
        """Set the limit by hand; from now on it does not adapt. It is never above what is known of the other side."""
        self._controller = None
        self.limit, self.reason = min(limit, self._known or limit), "as set"

    def keep_to(self, limits: Limits) -> None:
        """Keep to what is known of the other side."""
        if self._pace is not None:
            return
        self._pace = Pace(limits)
        self._known = limits.concurrency
        if self._known is not None and self._controller is not None:
            self._controller = Controller(ceiling=min(self._ceiling, self._known))
            self.limit = self._controller.limit
        self.limit = min(self.limit, self._known or self.limit)

    def opens_at(self) -> float | None:
        """Tell from when on its next job may start; None while that depends on what ends first."""
        if self.running >= self.limit:
            return None
        at = 0.0 if self.health.is_closed else self.health.opens_at()
        if self._pace is not None and at is not None:
            at = max(at, self._pace.opens_at)
        return at if at is None or self._controller is None else max(at, self._controller.gated_until)

    @property
    def is_free(self) -> bool:
        """Whether whoever holds one of its slots may keep it."""
        return self._controller is None and self._pace is None and self.running <= self.limit and self.health.state is CLOSED

    def went_well(self, now: float) -> None:
        """Learn from an attempt that went well and whose slot is kept."""
        self.succeeded_at = now
        self.throttled.add(hit=False)

    def start(self, ticket: Ticket, now: float) -> None:
        """Give a ticket one of its slots."""
        self.running += 1
        ticket.is_probe = not self.health.is_closed and self.health.started()
        if self._pace is not None:
            ticket.reserved, ticket.spent = ticket.weight, _tokens(ticket)
            ticket.asked = 0 if ticket.usage is None else ticket.usage.requests
            ticket.start = self._pace.started(now, ticket.reserved)
        if self._controller is not None:
            ticket.stamp = self._controller.started(now)

    def end(self, ticket: Ticket, failure: Failure | None, now: float) -> None:
        """Take the slot back, and learn from how the attempt went; None means well."""
        self.running -= 1
        kind = None if failure is None else failure.kind
        if failure is None:
            self.succeeded_at = now
        self.throttled.add(hit=kind is _THROTTLED)
        if self._pace is not None:
            self._settle(self._pace, ticket, failure)
        if failure is not None or not self.health.is_closed:
            self.health.ended(failure, now, is_probe=ticket.is_probe)
        if self._controller is not None:
            self._controller.ended(ticket.stamp, now, kind, None if failure is None else failure.retry_after_s)
            self.limit, self.reason = self._controller.limit, self._controller.reason

    def _settle(self, pace: Pace, ticket: Ticket, failure: Failure | None) -> None:
        """Give back what was not used: all of it, if it went well and says that it asked for nothing."""
        used = _tokens(ticket) - ticket.spent
        if failure is None and not used and ticket.usage is not None and ticket.usage.requests == ticket.asked:
            pace.returned(ticket.start, ticket.reserved)
        else:
            pace.settled(ticket.reserved, used if used or failure is not None else ticket.reserved)


def _tokens(ticket: Ticket) -> int:
    return 0 if ticket.usage is None else ticket.usage.input_tokens + ticket.usage.output_tokens
