"""Visits: calls of models and their like from inside of attempts, let in by the same lanes as the steps of workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from graphmill.core.errors import Unavailable
from graphmill.core.result import RUNNING, Failure, Kind
from graphmill.core.usage import NO_USAGE, RateLimits, added
from graphmill.engine.classifier import Classifier
from graphmill.engine.failures import cancelled, decisive
from graphmill.engine.frame import Frame
from graphmill.engine.health import HealthState
from graphmill.engine.lane import Lane
from graphmill.engine.rate_limits import Holder, Limits
from graphmill.engine.scheduler import Scheduler
from graphmill.engine.ticket import Ticket
from graphmill.engine.visit import Visit

T = TypeVar("T")
_BLAMED = (Kind.THROTTLED, Kind.UNAVAILABLE)


class Visits:
    """Those of one run.

    ``freed`` is called when another may start, ``lane_changed(lane, limit, state)`` with what its limit and health were before.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        loop: asyncio.AbstractEventLoop,
        classifier: Classifier,
        *,
        freed: Callable[[], None],
        lane_changed: Callable[[Lane, int, HealthState], None],
    ) -> None:
        self._scheduler = scheduler
        self._loop = loop
        self._classifier = classifier
        self._freed = freed
        self._lane_changed = lane_changed

    async def call(
        self,
        frame: Frame,
        key: str,
        limits: Limits | None,
        weight: int,
        function: Callable[[], Awaitable[T]],
        *,
        known: Callable[[], Awaitable[T | None]] | None,
    ) -> T:
        """Call a function when the lane of this key lets it start; the lane learns from how that goes.

        While it waits, the time of its attempt stands still. Where it would have to, it is first seen whether what it gives is ``known``.
        """
        visit = frame.visit = Visit(frame.ticket, self._scheduler.lanes.kept_to(key, limits), weight)
        with visit.lane.lent(frame.ticket):
            if (
                known is not None
                and not visit.lane.lets_in(visit, self._loop.time())
                and (found := await known()) is not None
            ):
                return found
            return await self._made(frame, visit, function)

    async def _made(self, frame: Frame, visit: Visit, function: Callable[[], Awaitable[T]]) -> T:
        await self._enter(visit)
        failure: Failure | None = None
        try:
            return await function()
        except Exception as error:
            failure = self._classifier.failure(decisive(error))
            raise
        except BaseException:
            failure = cancelled("the call was given up")
            raise
        finally:
            visit.usage = frame.usage
            self._leave(visit, failure)

    async def again(self, frame: Frame, weight: int) -> None:
        """Wait until one more call may be made in the place of one that has ended; what that has used is settled."""
        ticket, lane = frame.caller, frame.caller.lane
        if lane.pace is None:
            return
        used = (added(ticket.usage, frame.usage) if ticket is frame.ticket else frame.usage) or NO_USAGE
        lane.rest(ticket, used.tokens, self._loop.time())
        visit = Visit(frame.ticket, lane, weight)
        try:
            await self._enter(visit)
        except BaseException:
            lane.go_on(ticket, self._loop.time())  # it is about to end, and gives its slot back then
            raise
        self._scheduler.lanes.stand_in(visit, ticket)

    def learn(self, ticket: Ticket, holder: Holder, told: RateLimits) -> None:
        """Take what an answer says of a holder's limits, for all that ask the same."""
        lane = ticket.lane
        if lane.pace is None and (
            told.requests is not None or told.tokens is not None or told.input_tokens is not None
        ):
            self._scheduler.lanes.pace(lane, Limits(account=holder.account))
        if lane.pace is not None:
            lane.pace.learn(told, self._loop.time(), ticket.reserved)

    async def _enter(self, visit: Visit) -> None:
        if self._scheduler.lanes.let_in(visit, self._loop.time()):
            self._probed(visit)
            return
        ticket = visit.host
        visit.entered, deadlines, frame = self._loop.create_future(), ticket.deadlines, ticket.frame
        left_s = None if deadlines is None else deadlines.hold(ticket)
        if visit.lane.health.state is HealthState.PARKED:
            self._refuse(visit.lane)
        self._freed()
        try:
            await visit.entered
        except BaseException:
            if visit.status is RUNNING:  # let in and given up at the same moment
                self._leave(visit, cancelled("the call was given up"))
            else:
                self._scheduler.lanes.turn_away(visit)
            raise
        finally:
            if deadlines is not None and left_s is not None and ticket.frame is frame and frame is not None:
                deadlines.go_on(ticket, left_s)
        self._probed(visit)

    def _probed(self, visit: Visit) -> None:
        if visit.is_probe:
            self._lane_changed(visit.lane, visit.lane.limit, HealthState.OPEN)

    def _leave(self, visit: Visit, failure: Failure | None) -> None:
        lane = visit.lane
        limit, state = lane.limit, lane.health.state
        self._scheduler.lanes.see_out(visit, failure, self._loop.time())
        if failure is not None and failure.kind in _BLAMED:
            visit.host.blamed = lane
        self._freed()
        if lane.limit != limit or lane.health.state is not state:
            self._lane_changed(lane, limit, state)
        if lane.health.state is HealthState.PARKED:
            self._refuse(lane)

    def _refuse(self, lane: Lane) -> None:
        """Let those no longer wait that nobody will let in."""
        for visit in lane.guests:
            if visit.entered is not None and not visit.entered.done():
                visit.host.blamed = lane
                visit.entered.set_exception(Unavailable(lane.trouble))
