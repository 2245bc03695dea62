"""A scenario: everything that will happen to one run from outside, as plain data drawn from a seed."""

from dataclasses import dataclass, replace
from random import Random

from simulation import draw
from simulation.parts import Consumer, Control, Item, PlanFork, PlanStep, Recording, Rules, Server, Source
from simulation.plain import Plain

_FUNCTIONS_ONLY = 0.5  # of all seeds
_BUDGETED = 0.25
_RULES, _SOURCE, _CONSUMER = Rules(), Source(), Consumer()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Scenario(Plain):
    """One run's whole outside. ``memory`` is the machine's fullness from each moment on."""

    seed: int = 0
    items: tuple[Item, ...] = ()
    rules: Rules = _RULES
    servers: tuple[tuple[str, Server], ...] = ()
    source: Source = _SOURCE
    consumer: Consumer = _CONSUMER
    controls: tuple[Control, ...] = ()
    memory: tuple[tuple[float, float], ...] = ()
    on_result_s: float | None = None
    recording: Recording | None = None

    def steps(self):
        """Find each step of a program, with its path, by the position of its item."""
        return {
            (position, path): part
            for position, item in enumerate(self.items)
            for path, part in parts_of(item.plan)
            if type(part) is PlanStep
        }

    def forks(self):
        """Find the forks likewise."""
        return {
            (position, path): part
            for position, item in enumerate(self.items)
            for path, part in parts_of(item.plan)
            if type(part) is PlanFork
        }

    @classmethod
    def of(cls, seed):
        """Draw the scenario of a seed, always the same."""
        random = Random(seed)
        items = draw.items(random)
        source = draw.source(random, len(items))
        is_endless = source.hangs_at is not None or any(act.do in draw.ENDLESS for item in items for act in item.acts)
        rules = draw.rules(random, len(items), is_endless=is_endless)
        drawn = cls(
            seed=seed,
            items=items,
            rules=rules,
            servers=draw.servers(random, items),
            source=source,
            consumer=draw.consumer(random, len(items)),
            controls=draw.controls(random, len(items), is_endless=source.hangs_at is not None),
            memory=() if rules.memory_mark is None else draw.memory(random),
            on_result_s=random.choice([None, None, None, None, 0.0, 0.1, 1.0]),
        )
        return _with_budget(_with_programs(drawn, Random(f"programs of {seed}")), Random(f"budget of {seed}"))


def _with_programs(scenario, random):
    """Make programs of some items, record the run, or both."""
    if random.random() < _FUNCTIONS_ONLY:
        return scenario
    items = draw.programs(random, scenario.items)
    recording = draw.recording(random)
    source, controls = scenario.source, scenario.controls
    if recording is not None:
        source = replace(source, repeats_at=None)
        controls = draw.controls_of_processes(
            random, controls, len(items), recording, is_endless=source.hangs_at is not None
        )
    return replace(scenario, items=items, source=source, controls=controls, recording=recording)


def _with_budget(scenario, random):
    """Let the calls of some runs cost something, and cap what they may cost together."""
    if random.random() >= _BUDGETED:
        return scenario
    items = tuple(draw.priced(random, item) for item in scenario.items)
    budget, more = draw.budget(random, items)
    return replace(scenario, items=items, rules=replace(scenario.rules, budget=budget, more_budget=more))


def parts_of(plan, before=""):
    """Give each part of a plan with its path, those inside of forks too."""
    for index, part in enumerate(plan):
        path = f"{before}{index}"
        yield path, part
        if type(part) is PlanFork:
            for number, line in enumerate(part.lines):
                yield from parts_of(line, f"{path}.{number}.")
