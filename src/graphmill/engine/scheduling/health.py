"""A circuit breaker for a dependency: closed while it answers, open while it is down, given up if it stays down."""

from __future__ import annotations

from enum import StrEnum

from graphmill.core.result import Failure, Kind

_FIRST_PROBE_S = 1.0
_PARK_AFTER_S = 60.0
_MAX_BETWEEN_PROBES_S = 15.0
_INCONCLUSIVE = frozenset({Kind.CANCELLED, Kind.PAUSED, Kind.CRASH})


class HealthState(StrEnum):
    """The state of a dependency, in the words of a circuit breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    GIVEN_UP = "given_up"


UNAVAILABLE = "unavailable: "  # begins the description of a model that does not answer
ALL_REFUSED = "throttled, the last "  # and of one that refuses all calls
NOTHING_ANSWERED = (UNAVAILABLE, ALL_REFUSED)
CLOSED = HealthState.CLOSED  # a global is found faster than a member


class Health:
    """One circuit breaker. An attempt that finds its dependency unavailable opens it; then only probes start.

    A probe that is answered, even by a failure of its own, closes it; after ``park_after_s`` of failed probes it is
    given up. By default that is a minute, but one probe where ``is_proven`` is False: a wrong key or address gets no
    better by waiting.
    """

    __slots__ = ("_park_after_s", "_probe_at", "_wait_s", "reason", "since", "state")

    def __init__(self, park_after_s: float | None) -> None:
        self._park_after_s = park_after_s
        self._probe_at = 0.0
        self._wait_s = 0.0
        self.state = HealthState.CLOSED
        self.reason = ""
        self.since = 0.0

    @property
    def is_closed(self) -> bool:
        """Whether the dependency answers."""
        return self.state is CLOSED

    def opens_at(self) -> float | None:
        """Return when an attempt may start; None while a probe is running, or once it is given up."""
        if self.state is CLOSED:
            return 0.0
        return self._probe_at if self.state is HealthState.OPEN else None

    def started(self) -> bool:
        """Note the start of an attempt; return whether it is a probe."""
        if self.state is CLOSED:
            return False
        self.state = HealthState.HALF_OPEN
        return True

    def ended(self, failure: Failure | None, now: float, *, is_probe: bool, is_proven: bool = True) -> None:
        """Note how an attempt ended; None means well."""
        if failure is not None and failure.kind is Kind.UNAVAILABLE and self.state is CLOSED:
            self.since, self._wait_s = now, _FIRST_PROBE_S
            self._open(failure, now)
        elif is_probe and self.state is HealthState.HALF_OPEN:
            self._judge(failure, now, is_proven=is_proven)

    def give_up(self, reason: str) -> None:
        """Start nothing more."""
        self.state = HealthState.GIVEN_UP
        self.reason = reason

    def _judge(self, failure: Failure | None, now: float, *, is_proven: bool) -> None:
        if failure is not None and failure.kind in _INCONCLUSIVE:
            self.state = HealthState.OPEN
        elif failure is None or failure.kind not in (Kind.UNAVAILABLE, Kind.TIMEOUT):
            self.state, self.reason = HealthState.CLOSED, ""
        elif self._park_after_s is None and not is_proven:
            self.give_up(f"{failure.message} (no call has succeeded yet{_remedy(failure)})")
        elif now - self.since >= (_PARK_AFTER_S if self._park_after_s is None else self._park_after_s):
            self.give_up(f"{failure.message} (no probe succeeded for {now - self.since:.0f} s{_remedy(failure)})")
        else:
            self._wait_s = min(2 * self._wait_s, _MAX_BETWEEN_PROBES_S)
            self._open(failure, now)

    def _open(self, failure: Failure, now: float) -> None:
        self.state, self.reason = HealthState.OPEN, failure.message
        self._probe_at = now + self._wait_s


def _remedy(failure: Failure) -> str:
    """Say what to do if an error of another client, such as a 404, is one of the item and not of the server."""
    if failure.type.startswith("graphmill."):
        return ""
    return "; if only this item is affected, let Policy(classify=…) return 'permanent' for it"
