"""Scenarios that once broke an invariant, shrunk: pasted from what a failing seed prints."""

import pytest

from simulation.invariants import INVARIANTS, broken
from simulation.parts import Act, Control, Item, Rules
from simulation.scenario import Scenario
from simulation.simulate import simulate

# The guard lets go while the run is paused: "starting again" is told, and nothing starts.
PAUSED_AND_FULL = Scenario(
    items=(Item(),),
    rules=Rules(memory_mark=0.8),
    controls=(Control(at_s=0.0, do="pause"),),
    memory=((5.33, 0.95), (7.64, 0.5)),
)
# A drain in haste shortens every grace to half a second from now; one that ends sooner must not be made longer.
HASTE_DURING_THE_GRACE = Scenario(
    items=(Item(acts=(Act(do="swallow_for_ever"),)),),
    rules=Rules(timeout_s=1.0),
    controls=(Control(at_s=2.75, do="drain", value=0.0),),
)
# A probe that is abandoned parks the run, in haste, from within the check of the graces: it must set no timer that nobody cancels.
PARKED_BY_AN_ABANDONED_PROBE = Scenario(
    items=(Item(acts=(Act(do="clean_up", s=1.95, more_s=4.0),)), Item(acts=(Act(do="unavailable"),))),
    rules=Rules(concurrency=1, timeout_s=0.5, drain_s=0.0, park_after_s=2.0),
)

REGRESSIONS = {
    "starting again is told when it is so": PAUSED_AND_FULL,
    "time outs hold": HASTE_DURING_THE_GRACE,
    "nothing is left": PARKED_BY_AN_ABANDONED_PROBE,
}


@pytest.mark.parametrize("invariant", REGRESSIONS)
def test_what_was_mended_stays_mended(invariant):
    assert invariant in INVARIANTS
    assert broken(simulate(REGRESSIONS[invariant])) == []
