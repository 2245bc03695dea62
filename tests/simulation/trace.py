"""The trace of one simulated run: what its functions, source, consumer and observer saw, and how it stood at every rest."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import graphmill as gm
from simulation.journal import Row
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
    """One call of an item's function, or of the step at a path of its program.

    ``inside`` counts the bodies under way at its begin, ``stuck`` the abandoned among them. It has its slot from ``slot_s`` on: an unsafe
    one begins later, when that it will is durable.
    """

    position: int
    path: str = ""
    number: int
    key: str
    slot_s: float
    began_s: float
    waited_s: float = 0.0  # for its nested calls to be let in: its time stands still
    inside: int
    stuck: int
    is_fresh: bool
    ended_s: float | None = None
    outcome: Outcome | None = None

    @property
    def name(self):
        """What its failures and its value say."""
        return "/".join(filter(None, (str(self.position), self.path, str(self.number))))


@dataclass(slots=True, kw_only=True)
class Call:
    """A nested call of a body, in a lane: asked for, let in, and over; one that was never let in is over too."""

    body: Body
    key: str
    asked_s: float
    began_s: float | None = None
    over_s: float | None = None
    is_answered: bool = False

    @property
    def is_waiting(self):
        return self.began_s is None and self.over_s is None

    @property
    def is_running(self):
        return self.began_s is not None and self.over_s is None


@dataclass(slots=True, kw_only=True)
class Payment:
    """What a body paid for a call, in whole dollars: asked for, granted, and over; over without a grant if it was refused.

    ``used`` is the most it may cost until it is known.
    """

    body: Body
    most: int
    used: int
    asked_s: float
    granted_s: float | None = None
    over_s: float | None = None

    @property
    def cost(self):
        """What counts against the budget."""
        return 0 if self.granted_s is None else self.used


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a program was told of a step or a note; ``begun`` counts what its item had begun by then."""

    at_s: float
    position: int
    path: str
    value: Any
    failure: gm.Failure | None
    attempts: int
    asked_s: float
    begun: int


@dataclass(slots=True, kw_only=True)
class Line:
    """One line of a program, the whole of it or one of a fork: returned, failed, or closed because nobody wants it any more."""

    position: int
    path: str
    began_s: float
    ended_s: float | None = None
    end: str | None = None
    value: Any = None
    failure: gm.Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """The moment at which a program went on after a fork, with what of the fork was still open or ran."""

    at_s: float
    position: int
    path: str
    began_s: float
    is_expired: bool
    values: tuple[Any, ...]
    open_lines: tuple[str, ...]
    live: tuple[Body, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRest:
    """One lane at rest: as the run tells it, and the bodies and calls that are truly live; None where that can not be told.

    ``waiting`` are the nested calls that wait there.
    """

    key: str
    running: int
    queued: int
    limit: int
    health: str
    live: int | None
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The run at an instant at which nothing more happens until time passes; ``begun`` counts all bodies so far.

    ``is_durable`` says that nothing waits for a commit; ``unfinished`` is None where that can not be told.
    """

    at_s: float
    begun: int
    running: int
    queued: int
    retrying: int
    done: int
    held: str | None
    live: int
    limit: int
    unfinished: int | None
    finished: int
    is_durable: bool
    is_source_ready: bool
    is_source_open: bool
    waiting_for_budget: int
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
    """All that is known of one process of a run after its end; ``earlier`` are the traces of those before it.

    ``offered`` are the positions that its source had, ``rows`` what it handed over to the journal, ``known`` what was committed before.
    ``committed`` is, at each change, what this process has spent and may still spend.
    """

    scenario: Scenario
    earlier: tuple["Trace", ...] = ()
    process: int = 0
    offered: tuple[int, ...] = ()
    known: tuple[Row, ...] = ()
    rows: tuple[Row, ...] = ()
    told: tuple[Told, ...] = ()
    lines: tuple[Line, ...] = ()
    joins: tuple[Join, ...] = ()
    calls: tuple[Call, ...] = ()
    payments: tuple[Payment, ...] = ()
    committed: tuple[tuple[float, int], ...] = ()
    programs: tuple[tuple[int, float], ...] = ()
    is_dead: bool = False
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
                f"{b.began_s:.9f} {b.name} {b.ended_s} {None if b.outcome is None else b.outcome.kind}"
                for b in self.bodies
            ),
            *(f"{at_s:.9f} {r.job_id} {r.position} {r.status} {r.attempts} {r.error}" for at_s, r in self.results),
            *(f"{e.at_s:.9f} {type(e).__name__} {_told(e)}" for e in self.events),
            *map(repr, self.rests),
            *map(repr, (*self.told, *self.lines, *self.joins)),
            *(f"{p.asked_s:.9f} {p.body.name} {p.granted_s} {p.over_s} {p.used}" for p in self.payments),
            *(f"{row.handed_s:.9f} {row.kind} {row.job_id} {row.path} {row.committed_s}" for row in self.rows),
            *(trace.digest() for trace in self.earlier),
        ]
        return sha256("\n".join(lines).encode()).hexdigest()[:16]


def _told(event):
    return [
        getattr(event, name, None)
        for name in ("job_id", "attempt", "path", "wait_s", "state", "reason", "after", "key")
    ]
