"""A scenario: everything that will happen to one run from outside, as plain data drawn from a seed."""

from dataclasses import dataclass
from random import Random

from simulation import draw
from simulation.parts import Consumer, Control, Item, Rules, Server, Source
from simulation.plain import Plain

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

    @classmethod
    def of(cls, seed):
        """Draw the scenario of a seed, always the same."""
        random = Random(seed)
        items = draw.items(random)
        source = draw.source(random, len(items))
        is_endless = source.hangs_at is not None or any(act.do in draw.ENDLESS for item in items for act in item.acts)
        rules = draw.rules(random, len(items), is_endless=is_endless)
        return cls(
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
