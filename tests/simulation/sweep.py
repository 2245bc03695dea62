"""Simulates many seeds and adds up what happened and what broke."""

from collections import Counter
from dataclasses import dataclass, field

from simulation.coverage import happened
from simulation.invariants import broken
from simulation.scenario import Scenario
from simulation.simulate import simulate
from simulation.view import View


@dataclass(slots=True)
class Sweep:
    """What came of a series of seeds."""

    seeds: int = 0
    items: int = 0
    attempts: int = 0
    virtual_s: float = 0.0
    happened: Counter = field(default_factory=Counter)
    broken: dict = field(default_factory=dict)

    def add(self, other):
        """Take in another series."""
        self.seeds += other.seeds
        self.items += other.items
        self.attempts += other.attempts
        self.virtual_s += other.virtual_s
        self.happened += other.happened
        self.broken |= other.broken


def sweep(seeds):
    """Simulate these seeds."""
    found = Sweep()
    for seed in seeds:
        trace = simulate(Scenario.of(seed))
        if problems := broken(trace):
            found.broken[seed] = problems
        found.seeds += 1
        found.items += len(trace.scenario.items)
        for process in (*trace.earlier, trace):
            found.attempts += len(process.bodies)
            found.virtual_s += process.ended_s
            if not process.is_hung and process.statistics is not None:
                found.happened += happened(View(process))
    return found
