"""Draws the parts of a scenario; what seldom matters is drawn seldom, what meets at one instant often."""

from dataclasses import replace
from typing import NamedTuple

from simulation.parts import (
    Act,
    Consumer,
    Control,
    Item,
    PlanFork,
    PlanNote,
    PlanStep,
    Price,
    Recording,
    Rules,
    Server,
    Source,
)

FOR_EVER = 1e9
ENDLESS = frozenset({"hang", "swallow_for_ever"})
_CALM = ("sleep",) * 12 + ("transient", "permanent", "throttle")
_MIXED = (
    ("sleep",) * 6
    + ("transient",) * 3
    + ("permanent", "throttle", "throttle", "hang", "clean_up", "odd", "unavailable")
)
_LATE = ("swallow", "swallow", "swallow_for_ever", "return_late", "raise_late")
_HOSTILE = (*_MIXED, *_LATE, "exit", "base", "cancel_itself", "cancel_other", "cancel_self")
_ROUND = (0.0, 0.0, 0.001, 0.1, 0.5, 0.5, 1.0, 1.0, 2.0, 3.0)


def items(random):
    """Draw the items, each with its key and what its attempts do."""
    least, most = random.choice(
        [(0, 3), (4, 12), (8, 25), (10, 40), (20, 80)] * 2 + [(100, 200)]
    )  # the last for limits that adapt
    count = random.randint(least, most)
    keys = random.choice([("",), ("",), ("a",), ("a", "b"), ("a", "b"), ("a", "b", "c")])
    acts = random.choice([_CALM, _CALM, _MIXED, _MIXED, _HOSTILE])
    is_ranked = random.random() < 0.3
    return tuple(
        Item(
            key=random.choice(keys),
            priority=random.choice([0, 0, 0, 1, -1, 2]) if is_ranked else 0,
            acts=_acts(random, acts, count),
        )
        for _ in range(count)
    )


def _acts(random, acts, count):
    drawn = tuple(_act(random, acts, count) for _ in range(random.choice([1, 1, 1, 2, 3])))
    is_mended = drawn[-1].do in ("unavailable", "throttle") and random.random() < 0.9
    return (*drawn, Act(s=0.1)) if is_mended else drawn


def _act(random, acts, count):
    do = random.choice(acts)
    seconds = random.choice(_ROUND) if random.random() < 0.5 else round(3 * random.random(), 3)
    if random.random() < 0.03:  # a heavy tail
        seconds *= 10
    more = 0.0
    if do == "throttle":
        more = random.choice([-1.0, -1.0, 0.0, 0.3, 2.0, 5.0])
    elif do == "clean_up":
        more = random.choice([0.0, 0.1, 1.0, 4.0])
    return Act(do=do, s=seconds, more_s=more, target=random.randrange(count) if do == "cancel_other" else 0)


def servers(random, of_items):
    """Draw what stands behind each key."""
    return tuple((key, _server(random)) for key in sorted({item.key for item in of_items}))


def _server(random):
    kind = random.choice(["free"] * 8 + ["limit"] * 3 + ["bucket"] * 2 + ["down"] * 4 + ["gone"])
    retry_after_s = random.choice([None, 0.5, 2.0])
    if kind == "limit":
        return Server(limit=random.randint(1, 4), retry_after_s=retry_after_s)
    if kind == "bucket":
        return Server(per_s=random.choice([1.0, 3.0, 10.0]), retry_after_s=retry_after_s)
    if kind == "down":
        since = random.choice([0.0, round(6 * random.random(), 3)])
        spans = [(since, since + random.choice([0.1, 1.0, 4.0, 12.0]))]
        if random.random() < 0.3:
            spans.append((spans[0][1] + 2.0, spans[0][1] + 5.0))
        return Server(down=tuple(spans), limit=random.choice([None, None, 2]))
    return (
        Server(down=((random.choice([0.0, 1.0, round(8 * random.random(), 3)]), FOR_EVER),))
        if kind == "gone"
        else Server()
    )


def source(random, count):
    """Draw where the items come from."""
    kind = random.choice(["list", "list", "jobs", "stream", "stream", "stream"])
    fate = random.choice(["ends"] * 6 + ["fails", "fails", "repeats", "hangs"])
    at = random.randint(1, count) if count else None
    return Source(
        kind=kind,
        gap_s=random.choice([0.0, 0.0, 0.05, 0.5]) if kind == "stream" else 0.0,
        fails_at=at if fate == "fails" and kind == "stream" else None,
        repeats_at=at if fate == "repeats" else None,
        hangs_at=at if fate == "hangs" and kind == "stream" else None,
    )


def rules(random, count, *, is_endless):
    """Draw the policy; what would never end by itself gets a time-out."""
    concurrency = random.choice([1, 2, 3, random.randint(1, 8), random.randint(4, 16)])
    wait_s = random.choice([0.0, 0.001, 0.1, 1.0, 1.0, 3.0])
    is_fail_fast = random.random() < 0.08
    timeouts = [0.5, 1.0, 3.0, 5.0, 10.0]
    batch_timeout_s = random.choice([None] * 12 + [1.0, 5.0, 20.0])
    needs_timeout = is_endless and batch_timeout_s is None
    return Rules(
        concurrency=concurrency,
        window=random.choice([None, None, concurrency, concurrency + 1, random.randint(concurrency, 3 * concurrency)]),
        attempts=random.randint(1, 4),
        wait_s=wait_s,
        cap_s=max(wait_s, random.choice([0.0, 4.0, 60.0])),
        backoff=random.choice(["fixed", "linear", "exponential"]),
        has_jitter=random.random() < 0.6,
        throttle_budget_s=random.choice(
            [0.0, 2.0, 8.0, 8.0, 30.0, 30.0, 60.0, 60.0] if count < 50 else [2.0, 8.0]
        ),  # a crowd would storm
        timeout_s=random.choice(timeouts if needs_timeout else [None, None, *timeouts]),
        job_timeout_s=random.choice([None] * 7 + [2.0, 5.0, 20.0]),
        batch_timeout_s=batch_timeout_s,
        on_failure="fail_fast" if is_fail_fast else "continue",
        max_failures=None if is_fail_fast else random.choice([None] * 8 + [0, 1, 4, 0.1, 0.5]),
        grace_s=random.choice([0.0, 0.001, 0.5, 2.0]),
        drain_s=random.choice([0.0, 1.0, 5.0, 25.0]),
        park_after_s=random.choice([0.0, 2.0, 10.0, 10.0, 30.0, 30.0, 60.0, 60.0]),
        is_adaptive=random.random() < 0.4,
        memory_mark=random.choice([None, None, 0.8]),
        stalled_s=random.choice([None, None, 1.0, 5.0]),
        alert_share=random.choice([None, 0.1, 0.3, 0.5]),
        is_strict=random.random() < 0.05,
    )


def consumer(random, count):
    """Draw who reads the results."""
    return Consumer(
        kind=random.choice(["read", "read", "read", "take"]),
        is_ordered=random.random() < 0.3,
        begins_at_s=random.choice([0.0, 0.0, 0.0, 0.0, 2.0]),
        pause_s=random.choice([0.0, 0.0, 0.0, 0.05, 0.5]),
        stops_after=random.randint(0, count) if random.random() < 0.08 else None,
    )


def controls(random, count, *, is_endless):
    """Draw what is done to the run; a pause is followed by its end, and a source that hangs by that of the run."""
    found = []
    for _ in range(random.choice([0, 0, 1, 1, 2, 3])):
        found.extend(_control(random, count, _moment(random)))
    if is_endless:
        found.append(Control(at_s=round(20 * random.random(), 3), do=random.choice(["cancel_run", "drain", "kill"])))
    return tuple(sorted(found, key=lambda control: control.at_s))


def _moment(random):
    most_s = random.choice([0.0, 0.2, 5.0, 20.0, 20.0])
    return round(most_s * random.random(), 4) if most_s else random.choice([0.0, 0.5, 1.0])


def _control(random, count, at_s):
    do = random.choice(
        ["cancel_job"] * 6 + ["pause"] * 6 + ["set_concurrency"] * 6 + ["drain", "drain_twice", "cancel_run", "kill"]
    )
    if do == "cancel_job":
        return [Control(at_s=at_s, do=do, value=random.randrange(max(1, count)))]
    if do == "set_concurrency":
        return [Control(at_s=at_s, do=do, value=random.randint(1, 12))]
    if do == "pause":
        return [Control(at_s=at_s, do="pause"), Control(at_s=at_s + random.choice([0.0, 0.3, 2.0, 9.0]), do="unpause")]
    if do == "drain_twice":
        first = Control(at_s=at_s, do="drain", value=random.choice([None, 10.0]))
        return [
            first,
            Control(at_s=at_s + random.choice([0.0, 0.5, 2.0]), do="drain", value=random.choice([0.0, 0.0, 1.0])),
        ]
    return [Control(at_s=at_s, do=do, value=random.choice([None, 0.0, 0.5, 3.0]) if do == "drain" else None)]


def memory(random):
    """Draw how full the machine is, from each moment on: also in the band between the two marks."""
    moments = sorted(round(12 * random.random(), 2) for _ in range(random.randint(1, 5)))
    return (*((at_s, random.choice([0.1, 0.5, 0.75, 0.8, 0.81, 0.95])) for at_s in moments), (15.0, 0.1))


_MOST_PROGRAMS = 12
_DEEPEST = 3
_NOT_JSON = "odd"


class _Choices(NamedTuple):
    """What the steps of one item are drawn from: their acts, the keys of lanes, how many items there are; and the item's own key."""

    acts: tuple[str, ...]
    keys: list[str]
    count: int
    own: str


def programs(random, of_items):
    """Make programs of these items, of fewer than before, and leave some of them functions."""
    acts = random.choice([_CALM, _CALM, _MIXED, _HOSTILE])
    keys = sorted({item.key for item in of_items}) or [""]
    count = min(len(of_items), _MOST_PROGRAMS)
    share = random.choice([0.3, 1.0, 1.0])
    return tuple(
        replace(item, plan=_plan(random, _Choices(acts, keys, count, item.key)))
        if random.random() < share
        else _plain_json(item)
        for item in of_items[:count]
    )


def _plain_json(item):
    """Let a function give what a journal can hold."""
    return replace(item, acts=tuple(replace(act, do="sleep") if act.do == _NOT_JSON else act for act in item.acts))


def _plan(random, choices, depth=0):
    parts = ["step"] * 6 + ["note"] + (["fork"] * 2 if depth < _DEEPEST else [])
    return tuple(
        _part(random, random.choice(parts), choices, depth)
        for _ in range(random.choice([0, 1, 1, 2, 3, 4]) or not depth)
    )


def _part(random, kind, choices, depth):
    if kind == "note":
        return PlanNote()
    if kind == "fork":
        wide = 120 if depth == 0 and random.random() < 0.01 else random.choice([0, 1, 2, 2, 3, 3, 4, 6])
        lines = tuple(_plan(random, choices, depth + 1 if wide < 100 else _DEEPEST) for _ in range(wide))
        return PlanFork(
            lines=lines,
            limit=random.choice([None, None, None, 1, 2]),
            timeout_s=random.choice([None] * 5 + [0.5, 2.0, 5.0]),
            stops_on_failure=random.random() < 0.3,
        )
    drawn = tuple(replace(act, s=act.s / 2) for act in _acts(random, choices.acts, choices.count))
    drawn = _plain_json(Item(acts=drawn)).acts
    key, called = random.choice(["", "", "", *choices.keys]), random.choice(choices.keys)
    if random.random() < 0.12:  # never of a lane before its own: two that call each other's lanes can wait for ever
        called = max(called, key or choices.own)
        drawn = (replace(drawn[0], do="call", more_s=random.choice([0.0, 0.1, 1.0]), key=called), *drawn[1:])
    is_endless = any(act.do in ENDLESS for act in drawn)
    is_unsafe = random.random() < 0.08
    return PlanStep(
        acts=drawn,
        key=key,
        timeout_s=random.choice([0.5, 1.0, 3.0] if is_endless else [None, None, None, None, 0.5, 2.0]),
        attempts=random.choice([None, None, None, 1, 2]),
        is_needed=random.random() < 0.4,
        is_unsafe=is_unsafe,
        is_recorded=is_unsafe or random.random() >= 0.05,
    )


def recording(random):
    """Draw whether the run is recorded, and how often it is resumed."""
    if random.random() < 0.3:
        return None
    return Recording(commit_s=random.choice([0.0, 0.001, 0.01, 0.1, 0.5]), restarts=random.choice([0, 1, 1, 2, 3]))


def controls_of_processes(random, first, count, of_recording, *, is_endless):
    """Draw what is done in each process, and how all but the last of them end."""
    found = list(first)
    for process in range(of_recording.restarts + 1):
        drawn = [] if process == 0 else list(controls(random, count, is_endless=is_endless))
        if process < of_recording.restarts:
            do = random.choice(["die", "die", "die", "drain", "cancel_run", "kill"])
            at_s = random.choice([0.0, 0.5, 1.0, round(4 * random.random(), 3), round(12 * random.random(), 3)])
            drawn.append(Control(at_s=at_s, do=do, value=random.choice([None, 0.0, 1.0]) if do == "drain" else None))
        found += [replace(control, process=process) for control in drawn]
    return tuple(sorted(found, key=lambda control: (control.process, control.at_s)))


def budget(random, of_items):
    """Draw a budget and how much more each further process has; about what the items could cost, or far less."""
    most = sum(act.price.most for item in of_items for act in acts_of(item) if act.price is not None)
    return random.randint(1, max(2, most // random.choice([1, 2, 10]))), random.choice([0, 1, 10, max(1, most // 2)])


def acts_of(part):
    """Give all acts of an item, or of what its plan is made of."""
    if type(part) is PlanFork:
        yield from (act for line in part.lines for each in line for act in acts_of(each))
    elif type(part) is not PlanNote:
        yield from part.acts
        yield from (act for each in getattr(part, "plan", ()) for act in acts_of(each))


def priced(random, part):
    """Let some acts of an item, or of a part of its plan, cost something."""
    if type(part) is PlanNote:
        return part
    if type(part) is PlanFork:
        return replace(part, lines=tuple(tuple(priced(random, each) for each in line) for line in part.lines))
    acts = tuple(replace(act, price=_price(random)) for act in part.acts)
    if type(part) is PlanStep:
        return replace(part, acts=acts)
    return replace(part, acts=acts, plan=tuple(priced(random, each) for each in part.plan))


def _price(random):
    if random.random() < 0.2:
        return None
    most = random.choice([1, 2, random.randint(1, 10), random.randint(1, 60)])
    used = random.choice([0, most, random.randint(0, most)])
    return Price(most=most, used=used, s=random.choice(_ROUND))
