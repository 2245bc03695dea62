"""Makes a failing scenario smaller while the same invariant still breaks, and says how to see it again."""

import time
from dataclasses import fields, replace

from simulation.invariants import broken
from simulation.parts import PlanFork, PlanStep
from simulation.simulate import simulate

_MOST_S = 20.0


def shrink(scenario, invariant, *, most_s=_MOST_S, check=None):
    """Give the smallest scenario found in this time that still breaks this invariant."""
    breaks = check or (lambda smaller: any(name == invariant for name, _ in broken(simulate(smaller))))
    until = time.monotonic() + most_s
    found = True
    while found and time.monotonic() < until:
        found = False
        for smaller in _smaller(scenario):
            if time.monotonic() > until:
                break
            if breaks(smaller):
                scenario, found = smaller, True
                break
    return scenario


def _smaller(scenario):
    """Give scenarios that are a step simpler, the greatest steps first."""
    yield from _fewer_items(scenario)
    for index in range(len(scenario.controls)):
        yield replace(scenario, controls=_without(scenario.controls, index))
    yield from _plainer(scenario)
    for index, (key, server) in enumerate(scenario.servers):
        yield replace(scenario, servers=_without(scenario.servers, index))
        yield from (replace(scenario, servers=_with(scenario.servers, index, (key, plain))) for plain in _reset(server))
    for index in range(len(scenario.memory)):
        yield replace(scenario, memory=_without(scenario.memory, index))
    for index, item in enumerate(scenario.items):
        yield from (replace(scenario, items=_with(scenario.items, index, plain)) for plain in _plainer_items(item))


def _fewer_items(scenario):
    size = len(scenario.items)
    step = size // 2
    while step:
        for start in range(0, size, step):
            yield replace(scenario, items=scenario.items[:start] + scenario.items[start + step :])
        step //= 2


def _plainer(scenario):
    for name in ("rules", "source", "consumer", "recording"):
        if getattr(scenario, name) is not None:
            yield from (replace(scenario, **{name: plain}) for plain in _reset(getattr(scenario, name)))
    if scenario.recording is not None:
        yield replace(scenario, recording=None)
    if scenario.on_result_s is not None:
        yield replace(scenario, on_result_s=None)


def _plainer_plans(plan):
    """Give plans with a part less, a fork's lines in its place, or a plainer part."""
    for index, part in enumerate(plan):
        yield _without(plan, index)
        if type(part) is PlanFork:
            yield from ((*plan[:index], *line, *plan[index + 1 :]) for line in part.lines)
        yield from (_with(plan, index, plain) for plain in _plainer_parts(part))


def _plainer_parts(part):
    if type(part) is PlanFork:
        for index, line in enumerate(part.lines):
            yield replace(part, lines=_without(part.lines, index))
            yield from (replace(part, lines=_with(part.lines, index, plain)) for plain in _plainer_plans(line))
    elif type(part) is PlanStep:
        yield from _plainer_acts(part)
    yield from _reset(part)


def _plainer_items(item):
    if item.plan:
        yield from (replace(item, plan=plan) for plan in _plainer_plans(item.plan) if plan)
    yield from _plainer_acts(item)
    yield from _reset(item)


def _plainer_acts(item):
    if len(item.acts) > 1:
        yield from (replace(item, acts=_without(item.acts, index)) for index in range(len(item.acts)))
    for index, act in enumerate(item.acts):
        yield from (replace(item, acts=_with(item.acts, index, plain)) for plain in _reset(act))


def _reset(part):
    """Give a part with each of its fields, in turn, as it is by default."""
    for field in fields(part):
        if getattr(part, field.name) != field.default:
            yield replace(part, **{field.name: field.default})


def _with(parts, index, part):
    return (*parts[:index], part, *parts[index + 1 :])


def _without(parts, index):
    return parts[:index] + parts[index + 1 :]


def told(scenario, problems, *, most_s=_MOST_S):
    """Say what broke, in the fewest words, and how to see it again."""
    invariant, problem = problems[0]
    small = shrink(scenario, invariant, most_s=most_s)
    others = sorted({name for name, _ in problems} - {invariant})
    lines = [
        f"seed {scenario.seed} breaks: {invariant}: {problem}",
        *([f"and also: {', '.join(others)}"] if others else []),
        f"again: make simulate SEEDS={scenario.seed}-{scenario.seed}",
        "for test_regressions.py:",
        repr(small),
    ]
    return "\n".join(lines)
