"""G1, G10–G17, G19: the real executor in thousands of worlds drawn from seeds, on the virtual clock."""

import pytest

from simulation.coverage import LEAST, SEEDS_COUNTED
from simulation.scenario import Scenario
from simulation.shrink import told
from simulation.simulate import simulate
from simulation.sweep import sweep

BLOCKS, BLOCK = 20, 100


def require_nothing_broken(found):
    for seed, problems in found.broken.items():
        pytest.fail(told(Scenario.of(seed), problems), pytrace=False)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_invariant_holds_after_every_seed(block):
    require_nothing_broken(sweep(range(block * BLOCK, (block + 1) * BLOCK)))


def test_the_simulation_still_exercises_everything_it_is_for():
    found = sweep(range(BLOCKS * BLOCK, BLOCKS * BLOCK + SEEDS_COUNTED))
    require_nothing_broken(found)
    assert {name: found.happened[name] for name, least in LEAST.items() if found.happened[name] < least} == {}


@pytest.mark.parametrize("seed", range(0, 400, 10))
def test_a_seed_always_replays_the_same_way(seed):
    assert Scenario.of(seed) == Scenario.of(seed)
    assert simulate(Scenario.of(seed)).digest() == simulate(Scenario.of(seed)).digest()
