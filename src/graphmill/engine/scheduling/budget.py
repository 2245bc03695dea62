"""The budget of a run: what was spent and what calls in flight may cost are never more than its cap together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from graphmill.core.usage import money_text
from graphmill.engine.jobs.state import CancelReason

if TYPE_CHECKING:
    from graphmill.core.result import Failure
    from graphmill.engine.engine import Engine
    from graphmill.engine.jobs.state import AttemptState


class Claim:
    """The most that one call can cost, while it waits until the budget has room for that."""

    __slots__ = ("attempt", "granted", "is_reserved", "nano")

    def __init__(self, nano: int, attempt: AttemptState | None = None) -> None:
        self.nano = nano
        self.attempt = attempt
        self.granted: asyncio.Future[None] | None = None
        self.is_reserved = False


class Budget:
    """Pure: reserve before a call, settle after it.

    Claims are granted in order, but one that can never fit holds up no other.
    """

    __slots__ = ("_waiting", "cap_nano", "reserved_nano", "settled_nano")

    def __init__(self, cap_nano: int, settled_nano: int = 0) -> None:
        self.cap_nano = cap_nano
        self.settled_nano = settled_nano
        self.reserved_nano = 0
        self._waiting: deque[Claim] = deque()

    @property
    def committed_nano(self) -> int:
        """What was spent, and what calls in flight may cost."""
        return self.settled_nano + self.reserved_nano

    @property
    def waiting(self) -> int:
        """How many claims wait."""
        return len(self._waiting)

    @property
    def is_spent(self) -> bool:
        """Whether all of it was spent."""
        return self.settled_nano >= self.cap_nano

    @property
    def is_exhausted(self) -> bool:
        """Whether claims wait and none of them can be granted any more."""
        return bool(self._waiting) and not self.reserved_nano

    def request(self, claim: Claim) -> bool:
        """Reserve for a call, or let its claim wait; return whether it was reserved."""
        if self._has_room(claim) and not any(map(self._can_ever_fit, self._waiting)):
            self._reserve(claim)
            return True
        self._waiting.append(claim)
        return False

    def settle(self, reserved_nano: int, used_nano: int) -> list[Claim]:
        """End a call: release what was reserved and count what it used; return the claims that are granted now."""
        self.reserved_nano -= reserved_nano
        self.settled_nano += used_nano
        granted = []
        for claim in list(self._waiting):
            if not self._can_ever_fit(claim):
                continue
            if not self._has_room(claim):
                break
            self._reserve(claim)
            self._waiting.remove(claim)
            granted.append(claim)
        return granted

    def withdraw(self, claim: Claim) -> list[Claim]:
        """Remove a claim that waits; return the claims that are granted now."""
        self._waiting.remove(claim)
        return self.settle(0, 0)

    def withdraw_all(self) -> list[Claim]:
        """Remove and return all claims that wait."""
        claims = list(self._waiting)
        self._waiting.clear()
        return claims

    def __str__(self) -> str:
        """Say why nothing more may start."""
        text = f"the budget is used up: {money_text(self.settled_nano)} of {money_text(self.cap_nano)}"
        if not self._waiting:
            return text
        least_nano = min(claim.nano for claim in self._waiting)
        if least_nano > self.cap_nano:
            return (
                f"the next call may cost {money_text(least_nano)}, more than the budget of {money_text(self.cap_nano)}"
            )
        return f"{text}, and the next call may cost {money_text(least_nano)}"

    def _reserve(self, claim: Claim) -> None:
        self.reserved_nano += claim.nano
        claim.is_reserved = True

    def _has_room(self, claim: Claim) -> bool:
        return self.committed_nano + claim.nano <= self.cap_nano

    def _can_ever_fit(self, claim: Claim) -> bool:
        return self.settled_nano + claim.nano <= self.cap_nano


class BudgetGate:
    """Where calls wait for the budget: their attempts keep their slots, and their timeouts stand still.

    ``save_committed`` receives, at each change, what counts as spent if the process dies now.
    """

    def __init__(
        self, engine: Engine, budget: Budget, loop: asyncio.AbstractEventLoop, save_committed: Callable[[int], None]
    ) -> None:
        self.budget = budget
        self._engine = engine
        self._loop = loop
        self._save_committed = save_committed
        self._stop_failure: Failure | None = None

    async def reserve(self, attempt: AttemptState, nano: int) -> bool:
        """Wait until a call that costs at most this may be made; cancels the attempt if the run stops before.

        Returns whether it had to wait.
        """
        if self._stop_failure is not None:
            self._end(attempt, self._stop_failure)
            raise asyncio.CancelledError
        claim = Claim(nano, attempt)
        if self.budget.request(claim):
            self._save_committed(self.budget.committed_nano)
            return False
        claim.granted = self._loop.create_future()
        left_s = None if attempt.deadlines is None else attempt.deadlines.pause(attempt)
        self._loop.call_soon(self._check)
        try:
            await claim.granted
        except BaseException:
            if claim.is_reserved:  # granted and cancelled at the same moment, in either order
                self.settle(nano, 0)
            elif self._stop_failure is None:
                self._grant(self.budget.withdraw(claim))
            raise
        finally:
            if attempt.deadlines is not None and left_s is not None and not attempt.is_over:
                attempt.deadlines.resume(attempt, left_s)
        return True

    def settle(self, reserved_nano: int, used_nano: int) -> None:
        """Note that a call has ended, or with nothing reserved what somebody else's client has used."""
        self._grant(self.budget.settle(reserved_nano, used_nano))
        self._check()

    def refuse_unpriced(self, model: str) -> None:
        """Stop the run: what somebody else's client has used of this model counts for the budget, but has no price."""
        self._engine.stop_for_budget(
            f"the budget cannot be kept, since no price is known for {model or 'a model'}; write prices for it in "
            "graphmill.yaml, or report cost_usd"
        )

    def stop(self, failure: Failure) -> None:
        """Let no claim wait any longer: the run stops."""
        self._stop_failure = failure
        for claim in self.budget.withdraw_all():
            if claim.granted is not None:
                claim.granted.cancel()
            if claim.attempt is not None:
                self._end(claim.attempt, failure)

    def _grant(self, claims: list[Claim]) -> None:
        self._save_committed(self.budget.committed_nano)
        for claim in claims:
            if claim.granted is not None and not claim.granted.done():
                claim.granted.set_result(None)

    def _check(self) -> None:
        if self.budget.is_exhausted and self._stop_failure is None:
            self._engine.stop_for_budget()

    @staticmethod
    def _end(attempt: AttemptState, failure: Failure) -> None:
        attempt.cancel(CancelReason(failure, is_final=True))
