"""A strand: one line of steps inside a job, which does one after the other."""

from __future__ import annotations

from itertools import count

from graphmill.core.result import PENDING
from graphmill.engine.program import Fork, Program, Step
from graphmill.engine.recorder import NO_ATTEMPTS
from graphmill.engine.ticket import Ticket

_positions = count(-(2**62))  # among equals, what has begun goes before what has not


class Strand(Ticket):
    """A ticket for one step after the other, in the rank of its job, ``root``; ``up`` is the strand that waits for it at a fork."""

    __slots__ = (
        "began_at",
        "children",
        "fork",
        "has_step",
        "in_a_row",
        "is_dropped",
        "is_holding",
        "is_spreading",
        "program",
        "root",
        "step",
        "up",
    )

    step: Step

    def __init__(self, root: Ticket, program: Program, up: Strand | None) -> None:
        super().__init__(
            root.job, root.lane, root.rules, position=next(_positions), rank=root.rank, now=root.admitted_at
        )
        self.root = root
        self.program = program
        self.up = up
        self.fork: Fork | None = None
        self.children: dict[Strand, None] = {}  # in order: what is dropped together is so in the same order each time
        self.has_step = False
        self.in_a_row = 0  # steps done without a turn of the loop in between
        self.is_spreading = False
        self.is_holding = False  # whether its last step has ended and its slot was not given back yet
        self.is_dropped = False
        self.recall = root.recall
        self.began_at = 0.0
        self.models = root.models
        self.usage = None  # what its job has used before is no step's

    @property
    def is_call(self) -> bool:
        """Whether the step has a lane of its own."""
        return self.rules.lane is not None

    @property
    def weight(self) -> int:
        """How many tokens the step may take."""
        return self.step.weight

    def set_step(self, step: Step, now: float) -> None:
        """Turn to the next step: nothing of the last one counts for it, but what it has itself gone through in earlier processes."""
        self.step = step
        self.path = step.path
        self.rules = step.rules
        self.has_step = True
        self.status = PENDING
        self.rank = self.root.rank
        past = NO_ATTEMPTS if self.recall is None else self.recall.failed.get(step.path, NO_ATTEMPTS)
        self.attempts = past.last
        self.refusals = past.last - past.counted
        self.crashes = self.throttles = 0
        self.throttled_s = 0.0
        self.throttled_at = self.began_at = now
        self.started_at = None
        self.verdict = None
        self.usage = past.usage
