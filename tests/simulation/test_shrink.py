from simulation.parts import (  # noqa: F401  what a pasted literal needs
    Act,
    Consumer,
    Control,
    Item,
    PlanFork,
    PlanNote,
    PlanStep,
    Recording,
    Rules,
    Server,
    Source,
)
from simulation.scenario import Scenario, parts_of
from simulation.shrink import shrink, told


def test_a_scenario_shrinks_to_what_breaks():
    def breaks(scenario):
        return any(item.key == "b" for item in scenario.items) and any(
            control.do == "drain" for control in scenario.controls
        )

    great = next(scenario for scenario in map(Scenario.of, range(1000)) if breaks(scenario))
    small = shrink(great, "whatever", check=breaks)
    drains = [control for control in small.controls if control.do == "drain"]
    assert small.items == (Item(key="b"),)
    assert small.controls == tuple(drains[:1])
    assert (small.rules, small.source, small.consumer) == (Rules(), Source(), Consumer())


def test_a_program_shrinks_to_the_part_that_breaks():
    def breaks(scenario):
        steps = [part for item in scenario.items for _, part in parts_of(item.plan) if type(part) is PlanStep]
        return any(act.do == "hang" for step in steps for act in step.acts) and scenario.recording is not None

    great = next(scenario for scenario in map(Scenario.of, range(1000)) if breaks(scenario))
    small = shrink(great, "whatever", check=breaks)
    assert small.items == (Item(plan=(PlanStep(acts=(Act(do="hang"),)),)),)
    assert small.recording == Recording()


def test_a_scenario_prints_as_the_literal_that_makes_it():
    for seed in range(50):
        assert eval(repr(Scenario.of(seed))) == Scenario.of(seed)


def test_a_failure_is_told_with_its_seed_and_the_way_back_to_it():
    text = told(Scenario.of(7), [("a made up invariant", "is broken"), ("another", "too")], most_s=0.0)
    assert text.startswith("seed 7 breaks: a made up invariant: is broken\nand also: another\n")
    assert "make simulate SEEDS=7-7" in text
    assert "Scenario(seed=7, " in text


def test_shrinking_never_changes_which_invariant_breaks():
    scenario = Scenario.of(3)
    assert shrink(scenario, "an invariant that nothing breaks", most_s=0.5) == scenario
