"""Nested calls: model calls inside an attempt. They wait in the model's lane while their job keeps its slot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from math import inf
from typing import TYPE_CHECKING, TypeVar

from graphmill.core.errors import Unavailable
from graphmill.core.result import Failure, Kind
from graphmill.core.usage import RateLimits, add_usage
from graphmill.engine.failures import Classifier, cancelled, root_cause
from graphmill.engine.jobs.context import AttemptContext
from graphmill.engine.jobs.state import AttemptState
from graphmill.engine.scheduling.health import HealthState
from graphmill.engine.scheduling.lanes import Lane, Lanes, SlotRequest
from graphmill.engine.scheduling.rate_limits import Limits, LimitsOwner

if TYPE_CHECKING:
    from graphmill.engine.engine import Engine

T = TypeVar("T")
_positions = count(-(2**61))


class NestedCall(SlotRequest):
    """A call from inside an attempt, in the lane of what it calls."""

    __slots__ = ("admitted", "attempt", "is_admitted")

    def __init__(self, attempt: AttemptState, lane: Lane, estimated_tokens: int) -> None:
        slot = attempt.step.slot
        # The attempt may be the probe of this lane, and so is its call then: else both would wait for each other
        # forever.
        is_probe = (
            slot is not None and slot.lane is lane and slot.is_probe and lane.health.state is HealthState.HALF_OPEN
        )
        rank = -inf if is_probe else attempt.step.branch.job.rank
        super().__init__(lane, rank, next(_positions), None, is_call=True)
        self.is_probe = is_probe
        self.attempt = attempt
        self.estimated_tokens = estimated_tokens
        self.admitted: asyncio.Future[None] | None = None
        self.is_admitted = False

    def admit(self, now: float) -> None:
        """Let it begin."""
        self.is_admitted = True
        self.lane.start(self, now)
        if self.admitted is not None and not self.admitted.done():
            self.admitted.set_result(None)


class NestedCalls:
    """The nested calls of one run."""

    def __init__(self, engine: Engine, lanes: Lanes, loop: asyncio.AbstractEventLoop, classifier: Classifier) -> None:
        self._engine = engine
        self._lanes = lanes
        self._loop = loop
        self._classifier = classifier

    async def call(
        self,
        context: AttemptContext,
        key: str,
        limits: Limits | None,
        estimated_tokens: int,
        function: Callable[[], Awaitable[T]],
        *,
        find_cached: Callable[[], Awaitable[T | None]] | None,
    ) -> T:
        """Call a function when the lane of this key admits it; the lane learns from how that goes.

        The timeout of the attempt is paused while the call waits. If it would have to wait, ``find_cached`` is asked
        first.
        """
        attempt = context.attempt
        call = context.nested_call = NestedCall(attempt, self._lanes.get(key, limits, is_call=True), estimated_tokens)
        with call.lane.lend_slot(attempt.step.slot):
            if find_cached is not None and not call.lane.can_start_now(call, self._loop.time()):
                found = await find_cached()
                if found is not None:
                    return found
            return await self._make(context, call, function)

    async def wait_for_next(self, context: AttemptContext, estimated_tokens: int) -> None:
        """Wait until one more call may be made after one that has ended; the usage of that one is settled."""
        slot, lane = context.slot, context.slot.lane
        if lane.rate_limiter is None:
            return
        slot.usage = (
            context.usage if context.nested_call is not None else add_usage(context.attempt.step.usage, context.usage)
        )
        lane.end_call(slot, self._loop.time())
        call = NestedCall(context.attempt, lane, estimated_tokens)
        try:
            await self._enter(call)
        except BaseException:
            lane.resume_call(slot, self._loop.time())  # the attempt is about to end, and gives its slot back then
            raise
        slot.reservation, slot.stamp, slot.is_probe = call.reservation, call.stamp, call.is_probe
        self._lanes.leave(lane)

    def learn_limits(self, slot: SlotRequest, owner: LimitsOwner, stated: RateLimits) -> None:
        """Apply what a response says about its server's rate limits, for everything that uses the same account."""
        lane = slot.lane
        if lane.rate_limiter is None and (
            stated.requests is not None or stated.tokens is not None or stated.input_tokens is not None
        ):
            self._lanes.apply_limits(lane, Limits(account=owner.account))
        if lane.rate_limiter is not None:
            lane.rate_limiter.learn(stated, self._loop.time(), slot.reservation)

    async def _make(self, context: AttemptContext, call: NestedCall, function: Callable[[], Awaitable[T]]) -> T:
        await self._enter(call)
        failure: Failure | None = None
        try:
            return await function()
        except Exception as error:
            failure = self._classifier.failure(root_cause(error))
            raise
        except BaseException:
            failure = cancelled("the call was cancelled")
            raise
        finally:
            call.usage = context.usage
            self._leave(call, failure)

    async def _enter(self, call: NestedCall) -> None:
        """Wait until the lane admits a call."""
        lane, attempt = call.lane, call.attempt
        self._lanes.join(lane)
        now, is_probed = self._loop.time(), call.is_probe
        opens_at = lane.opens_at(now, call) if lane.queue.is_behind(call) else None
        if opens_at is not None and opens_at <= now:
            call.admit(now)
        else:
            self._lanes.push(call)
            await self._wait(call, lane, attempt)
        if call.is_probe and not is_probed:
            self._engine.lane_changed(lane, lane.limit, HealthState.OPEN)

    async def _wait(self, call: NestedCall, lane: Lane, attempt: AttemptState) -> None:
        call.admitted = self._loop.create_future()
        deadlines = attempt.deadlines
        left_s = None if deadlines is None else deadlines.pause(attempt)
        if lane.health.state is HealthState.GIVEN_UP:
            self._refuse_waiting(lane)
        self._engine.schedule_starts()
        self._engine.hold(attempt.step.branch, is_held=True)
        try:
            await call.admitted
        except BaseException:
            if call.is_admitted:  # admitted and cancelled at the same moment
                self._leave(call, cancelled("the call was cancelled"))
            else:
                self._lanes.remove(call)
                self._lanes.leave(lane)
            raise
        finally:
            if not attempt.is_over:
                self._engine.hold(attempt.step.branch, is_held=False)
                if deadlines is not None and left_s is not None:
                    deadlines.resume(attempt, left_s)

    def _leave(self, call: NestedCall, failure: Failure | None) -> None:
        lane = call.lane
        limit, state = lane.limit, lane.health.state
        slot = call.attempt.step.slot
        if call.is_probe and slot is not None and slot.lane is lane and slot.is_probe:
            if failure is not None and failure.kind is Kind.CANCELLED:
                call.is_probe = False  # it says nothing: how its attempt ends does
            else:
                slot.is_probe = False
        lane.end(call, failure, self._loop.time())
        self._lanes.leave(lane)
        if failure is not None and failure.kind in (Kind.THROTTLED, Kind.UNAVAILABLE):
            call.attempt.failed_lane = lane
        self._engine.schedule_starts()
        if lane.limit != limit or lane.health.state is not state:
            self._engine.lane_changed(lane, limit, state)
        if lane.health.state is HealthState.GIVEN_UP:
            self._refuse_waiting(lane)

    def _refuse_waiting(self, lane: Lane) -> None:
        """Fail the calls that wait in a lane which will admit none of them."""
        for call in lane.queue:
            if isinstance(call, NestedCall) and call.admitted is not None and not call.admitted.done():
                call.attempt.failed_lane = lane
                call.admitted.set_exception(Unavailable(lane.trouble))
