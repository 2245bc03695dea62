"""The trace of one simulated run: what its functions, source, consumer and observer saw, and how it stood at every rest."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import graphmill as gm
from simulation.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a body ended: what it returned, or what it raised and of what kind that is."""

    value: Any = None
    kind: str | None = None
    message: str = ""
    retry_after_s: float | None = None
    is_exit: bool = False


@dataclass(slots=True, kw_only=True)
class Body:
    """One call of an item's function; ``inside`` counts the bodies under way at its begin, ``stuck`` the abandoned among them."""

    position: int
    number: int
    key: str
    began_s: float
    inside: int
    stuck: int
    is_fresh: bool
    ended_s: float | None = None
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRest:
    """One lane at rest: as the run tells it, and the bodies that are truly live."""

    key: str
    running: int
    queued: int
    limit: int
    health: str
    live: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The run at an instant at which nothing more happens until time passes."""

    at_s: float
    running: int
    queued: int
    retrying: int
    done: int
    held: str | None
    live: int
    limit: int
    unfinished: int
    finished: int
    is_source_ready: bool
    is_source_open: bool
    lanes: tuple[LaneRest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A control that was used, and its answer."""

    at_s: float
    do: str
    value: float | None
    answer: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All that is known of a run after its end."""

    scenario: Scenario
    admitted: tuple[tuple[float, int], ...]
    most_unfinished: tuple[tuple[float, int], ...]
    bodies: tuple[Body, ...]
    events: tuple[gm.Event, ...]
    results: tuple[tuple[float, gm.Result], ...]
    shown: tuple[int, ...]
    controls: tuple[Done, ...]
    limits: tuple[tuple[float, int], ...]
    readings: tuple[tuple[float, float], ...]
    rests: tuple[Rest, ...]
    readouts: tuple[gm.Progress, ...]
    alerts: tuple[str, ...]
    leftovers: tuple[str, ...]
    complaints: tuple[str, ...]
    raised: str | None
    is_read_out: bool
    is_hung: bool
    left_s: float
    ended_s: float
    stopped: gm.StopReason | None
    because: str
    statistics: gm.Statistics | None

    def digest(self):
        """Give a short text that is the same for the same run."""
        lines = [
            *(
                f"{b.began_s:.9f} {b.position} {b.number} {b.ended_s} {None if b.outcome is None else b.outcome.kind}"
                for b in self.bodies
            ),
            *(f"{at_s:.9f} {r.job_id} {r.position} {r.status} {r.attempts} {r.error}" for at_s, r in self.results),
            *(f"{e.at_s:.9f} {type(e).__name__} {_told(e)}" for e in self.events),
            *map(repr, self.rests),
        ]
        return sha256("\n".join(lines).encode()).hexdigest()[:16]


def _told(event):
    return [getattr(event, name, None) for name in ("job_id", "attempt", "wait_s", "state", "reason", "after", "key")]
