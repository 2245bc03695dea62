"""How far a run is, and how fast it goes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from graphmill.core.usage import Usage
from graphmill.engine.health import HealthState

_RATE_OVER_S = 30.0
UNAVAILABLE = "unavailable: "  # so begins what is said, and recorded, of a model that does not answer
ALL_REFUSED = "throttled, the last "  # and so of one that refuses all calls
NOTHING_ANSWERED = (UNAVAILABLE, ALL_REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneProgress:
    """How the jobs of one key stand: their limit, why it was last changed, what share of late was throttled, and their health.

    ``health`` is closed, open, half_open or parked, ``trouble`` why it is not closed. ``waits_for`` says what calls wait for that could
    be made else, such as a limit, and is empty if none do; ``next_s`` how long the next of them still waits, where that is known.
    ``refusals`` tells of calls that are throttled without such a wait, if they are many.
    """

    key: str
    running: int
    queued: int
    limit: int
    reason: str
    throttled_share: float
    health: HealthState
    trouble: str
    waits_for: str = ""
    next_s: float | None = None
    refusals: str = ""

    @property
    def waits(self) -> str:
        """Say in a few words what its calls wait for, or that they are refused; empty if neither."""
        if self.trouble:
            named = "" if self.trouble.startswith(self.key) else f"{self.key}: "
            return f"{UNAVAILABLE}{named}{self.trouble}"
        return f"{self.key}: waits for {self.waits_for}" if self.waits_for else self.refusals


def told_lane(lanes: Iterable[LaneProgress]) -> LaneProgress | None:
    """Give the one whose wait is told where there is room for one: the first in trouble, else the first that waits."""
    return min((lane for lane in lanes if lane.waits), key=lambda lane: not lane.trouble, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesProgress:
    """How far a batch inside a job is; ``total`` is None where nobody knows it yet."""

    path: str
    done: int
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A reading of a live run.

    ``done`` counts all jobs that have a result, ``rate`` those that succeeded or failed, per second of late; ``total`` and ``eta_s`` are
    None where they are not known. ``concurrency`` is the most attempts at once as things stand. ``held`` says why nothing new
    starts, if so: the run was paused, or the machine is full, which still lets one attempt run at a time.
    Of a run of one job ``series`` is the batch inside that is under way, if there is one. ``usage`` is by model.
    """

    total: int | None
    done: int
    succeeded: int
    failed: int
    timed_out: int
    cancelled: int
    paused: int
    running: int
    queued: int
    retrying: int
    concurrency: int
    held: str | None
    lanes: tuple[LaneProgress, ...]
    rate: float
    eta_s: float | None
    elapsed_s: float
    series: SeriesProgress | None = None
    usage: Mapping[str, Usage] = field(default_factory=dict)


class RateMeter:
    """The rate of the last half minute, from readings taken now and then."""

    def __init__(self, now: float) -> None:
        self._readings = deque([(now, 0)])

    def read(self, now: float, done: int) -> None:
        """Note how much is done."""
        self._readings.append((now, done))
        while len(self._readings) > 1 and self._readings[1][0] <= now - _RATE_OVER_S:
            self._readings.popleft()

    def rate(self, now: float, done: int) -> float:
        """Tell the jobs done per second."""
        since, done_then = self._readings[0]
        return (done - done_then) / (now - since) if now > since else 0.0
