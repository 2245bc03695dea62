"""What must hold of slots at every instant: never too many taken, none wasted, and the right job on each."""

from collections import Counter, defaultdict
from itertools import chain

import graphmill as gm
from simulation.view import EPS, within

_MOST_BETWEEN_PROBES_S = 15.0
_LONGEST_GATE_S = 66.0


def never_more_than_the_limit(view):
    for body in view.trace.bodies:
        if body.inside - body.stuck > view.limit_at(body.began_s):
            yield f"{body.inside - body.stuck} at once at {body.began_s:.3f}, the limit is {view.limit_at(body.began_s)}"


def never_more_than_the_limit_of_a_key(view):
    starts, before = _starts_by_instant(view), {}
    changes = [event for _, event in view.of(gm.ConcurrencyChanged)]
    for rest in view.trace.rests:
        for lane in rest.lanes:
            limit = max(lane.limit, before.get(lane.key, 0), *_limits_told(changes, lane.key, rest.at_s))
            if lane.live > limit and starts[_instant(rest.at_s), lane.key]:
                yield f"{lane.live} of key {lane.key!r} at {rest.at_s:.3f}, its limit is {limit}"
            before[lane.key] = lane.limit


def _limits_told(changes, key, at_s):
    told = [event for event in changes if event.key in (key, None) and abs(event.at_s - at_s) <= EPS]
    return [0, *(event.after for event in told), *(event.before for event in told)]


def _starts_by_instant(view):
    return Counter((_instant(body.began_s), body.key) for body in view.trace.bodies)


def _instant(at_s):
    return round(at_s / EPS)


def nothing_starts_while_paused(view):
    yield from (
        f"{event.job_id} started at {event.at_s:.3f}"
        for _, event in view.of(gm.AttemptStarted)
        if within(view.pauses, event.at_s)
    )


def one_at_a_time_while_the_machine_is_full(view):
    for body in view.trace.bodies:
        if within(view.full, body.began_s) and body.inside - body.stuck > 1:
            yield f"position {body.position} started at {body.began_s:.3f} beside {body.inside - body.stuck - 1} others"


def what_holds_the_starts_is_told(view):
    ended_s = min(view.stopped_s, view.trace.left_s)
    for rest in view.trace.rests:
        is_paused, is_full = within(view.pauses, rest.at_s), within(view.full, rest.at_s)
        if rest.at_s < ended_s and (is_paused or is_full) and rest.held is None:
            yield f"at {rest.at_s:.3f} nobody is told that the starts are held"
        if rest.held is not None and not (_touches(view.pauses, rest.at_s) or _touches(view.full, rest.at_s)):
            yield f"held at {rest.at_s:.3f} for no reason: {rest.held}"


def starting_again_is_told_when_it_is_so(view):
    for _, event in view.of(gm.StartsReleased):
        if within(view.pauses, event.at_s) or within(view.full, event.at_s):
            yield f"told at {event.at_s:.3f}, while still held"


def _touches(spans, at_s):
    return any(since - EPS <= at_s <= until + EPS for since, until in spans)


def the_window_bounds_what_is_unfinished(view):
    for at_s, unfinished in view.trace.most_unfinished:
        if unfinished > _window(view, at_s):
            yield f"{unfinished} unfinished at {at_s:.3f}"
    for rest in view.trace.rests:
        if rest.unfinished > _window(view, rest.at_s):
            yield f"{rest.unfinished} unfinished at {rest.at_s:.3f}"


def _window(view, at_s):
    return view.rules.window or max(1000, 2 * view.limit_at(at_s))


def what_is_counted_as_running_runs(view):
    for rest in view.trace.rests:
        if rest.running != rest.live:
            yield f"{rest.running} counted at {rest.at_s:.3f}, {rest.live} run"
        for lane in rest.lanes:
            if lane.running != lane.live:
                yield f"{lane.running} of key {lane.key!r} counted at {rest.at_s:.3f}, {lane.live} run"
        if rest.done != rest.finished:
            yield f"{rest.done} counted as done at {rest.at_s:.3f}, {rest.finished} are"
        if rest.queued != sum(lane.queued for lane in rest.lanes):
            yield f"{rest.queued} counted as queued at {rest.at_s:.3f}, {rest.lanes}"


def no_slot_is_wasted(view):
    """When a slot is free, nothing holds the run, and a job could start, then none is left waiting once time passes."""
    throttles = _throttles(view)
    for rest in view.trace.rests:
        if _has_slot(view, rest):
            for lane in rest.lanes:
                if lane.queued and lane.live < lane.limit and _lets_start(view, lane, rest.at_s, throttles):
                    yield f"{lane.queued} of key {lane.key!r} wait at {rest.at_s:.3f} with {rest.live} of {rest.limit} slots taken"


def _has_slot(view, rest):
    if _touches(view.pauses, rest.at_s):
        return False
    return rest.live < (1 if _touches(view.full, rest.at_s) else rest.limit)


def _lets_start(view, lane, at_s, throttles):
    if view.rules.is_adaptive and any(since <= at_s <= since + _LONGEST_GATE_S for since in throttles[lane.key]):
        return False  # its own controller may hold it back after a throttle
    if lane.health == "closed":
        return True
    opened = [
        event.at_s for _, event in view.of(gm.HealthChanged) if event.key == lane.key and event.at_s <= at_s + EPS
    ]
    return lane.health == "open" and at_s > opened[-1] + _MOST_BETWEEN_PROBES_S + EPS


def _throttles(view):
    found = defaultdict(list)
    for body in view.trace.bodies:
        if body.outcome is not None and body.outcome.kind == "throttled":
            found[body.key].append(body.ended_s)
    return found


def no_room_is_wasted(view):
    """When a source has more, nothing is queued and the window has room, the next item is taken in."""
    for rest in view.trace.rests:
        is_hungry = rest.is_source_open and rest.is_source_ready and not rest.queued
        if is_hungry and rest.unfinished < _window(view, rest.at_s):
            yield f"{rest.unfinished} unfinished at {rest.at_s:.3f}, and the source is not asked"


def jobs_start_by_rank(view):
    """In one key, what was queued before this instant and ranks higher starts first, retries included."""
    by_key = defaultdict(list)
    for story in view.stories.values():
        if story.starts:
            by_key[view.key_of(story)].append(_spans(view, story))
    for key, lane in by_key.items():
        yield from _overtaken(key, lane)


def _spans(view, story):
    """The spans in which a job was queued, each with its rank, its begin, and the time and place of the start at its end.

    A job ranks by its admission, or by when it last found what it depends on unavailable.
    """
    ranked_s = story.starts[0][1] - story.result.queued_s
    queued = [(ranked_s, ranked_s)]
    for event in story.retries.values():
        ranked_s = event.at_s if event.failure.kind is gm.Kind.UNAVAILABLE else ranked_s
        queued.append((ranked_s, event.at_s + event.wait_s))
    priority_s = 60.0 * view.scenario.items[story.position].priority
    return [
        ((round(ranked - priority_s, 6), story.position), begin, at_s, index)
        for (ranked, begin), (index, at_s) in zip(queued, story.starts, strict=False)
    ]


def _overtaken(key, lane):
    for mine, _, started_s, index in chain(*lane):
        for other, begin, _, later in chain(*lane):
            is_higher = other[0] < mine[0]  # what was ranked in one instant may differ by less than the figures told
            if is_higher and begin < started_s - EPS and index < later:
                yield f"position {mine[1]} started at {started_s:.3f} before {other[1]} of key {key!r}"


def equals_start_in_their_order(view):
    last = {}
    for _, event in view.of(gm.AttemptStarted):
        for story in view.by_id[event.job_id]:
            if event.attempt == 1 and len(view.by_id[event.job_id]) == 1:
                item = view.scenario.items[story.position]
                if story.position < last.get((item.key, item.priority), -1):
                    yield f"position {story.position} started after a later one"
                last[item.key, item.priority] = story.position


def one_probe_at_a_time(view):
    """While what a key depends on is down nothing of it starts but a probe, and nothing once it was given up."""
    state, probes, since = defaultdict(lambda: "closed"), Counter(), {}
    keys = {index: view.key_of(story) for story in view.stories.values() for index, _ in story.starts}
    for index, event in enumerate(view.trace.events):
        if type(event) is gm.HealthChanged:
            yield from _wrong_turn(view, event, state[event.key], since)
            state[event.key], probes[event.key] = str(event.state), 0
        elif index in keys:
            key = keys[index]
            probes[key] += 1
            if state[key] in ("open", "parked") or (state[key] == "half_open" and probes[key] > 1):
                yield f"{event.job_id} started at {event.at_s:.3f} while {key!r} was {state[key]}"


def _wrong_turn(view, event, before, since):
    after, key = str(event.state), event.key
    if before == "closed" and after == "open":
        since[key] = event.at_s
    if (before, after) in (
        ("half_open", "half_open"),
        ("closed", "half_open"),
        ("parked", "closed"),
        ("parked", "open"),
        ("parked", "half_open"),
        ("open", "closed"),
    ):
        yield f"{key!r} went from {before} to {after}"
    if (
        (before, after) == ("half_open", "parked")
        and "probe" in event.reason
        and event.at_s < since[key] + view.rules.park_after_s - EPS
    ):
        yield f"{key!r} was parked after {event.at_s - since[key]:.3f} s"


def an_outage_closes_the_lane(view):
    """For a second after a live attempt found its server down, nothing of its key starts."""
    starts = defaultdict(list)
    for story in view.stories.values():
        starts[view.key_of(story)].extend(at_s for _, at_s in story.starts)
    for key, ends in _outages(view).items():
        for down_s in ends:
            yield from (
                f"{key!r} down at {down_s:.3f}, started {at_s:.3f}"
                for at_s in starts[key]
                if down_s + EPS < at_s < down_s + 1 - EPS
            )


def _outages(view):
    """When lanes went from closed to open, found from the bodies alone: the first refusal after an answered start."""
    found = defaultdict(list)
    refusals = defaultdict(list)
    for story in view.stories.values():
        for event in story.retries.values():
            if str(event.failure.kind) == "unavailable":
                refusals[view.key_of(story)].append(event.at_s)
    for key, moments in refusals.items():
        found[key] = sorted(moments)[:1]
    return found


ALL = (
    never_more_than_the_limit,
    never_more_than_the_limit_of_a_key,
    nothing_starts_while_paused,
    one_at_a_time_while_the_machine_is_full,
    what_holds_the_starts_is_told,
    starting_again_is_told_when_it_is_so,
    the_window_bounds_what_is_unfinished,
    what_is_counted_as_running_runs,
    no_slot_is_wasted,
    no_room_is_wasted,
    jobs_start_by_rank,
    equals_start_in_their_order,
    one_probe_at_a_time,
    an_outage_closes_the_lane,
)
