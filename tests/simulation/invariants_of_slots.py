"""What must hold of slots at every instant: never too many taken, none wasted, and the right job on each."""

from collections import Counter, defaultdict
from itertools import chain

import graphmill as gm
from simulation.view import EPS, within

_MOST_BETWEEN_PROBES_S = 15.0
_LONGEST_GATE_S = 66.0


def never_more_than_the_limit(view):
    for body in view.trace.bodies:
        limit = view.limit_at(body.slot_s, body.began_s)
        if body.inside - body.stuck > limit:
            yield f"{body.inside - body.stuck} at once at {body.began_s:.3f}, the limit is {limit}"


def never_more_than_the_limit_of_a_key(view):
    begun, before, before_s = 0, {}, -1.0
    changes = [event for _, event in view.of(gm.ConcurrencyChanged)]
    for rest in view.trace.rests:
        new = view.trace.bodies[begun : rest.begun]
        started = {body.key for body in new if body.slot_s == body.began_s}  # others had their slot before
        started |= {call.key for call in view.trace.calls if _is_between(call.began_s, before_s, rest.at_s)}
        for lane in rest.lanes:
            limit = max(lane.limit, before.get(lane.key, 0), *_limits_told(changes, lane.key, rest.at_s))
            if lane.live is not None and lane.live > limit and lane.key in started:
                yield f"{lane.live} of key {lane.key!r} at {rest.at_s:.3f}, its limit is {limit}"
            before[lane.key] = lane.limit
        begun, before_s = rest.begun, rest.at_s


def _is_between(at_s, since_s, until_s):
    return at_s is not None and since_s < at_s <= until_s


def _limits_told(changes, key, at_s):
    told = [event for event in changes if event.key in (key, None) and abs(event.at_s - at_s) <= EPS]
    return [0, *(event.after for event in told), *(event.before for event in told)]


def nothing_starts_while_paused(view):
    yield from (
        f"{event.job_id} started at {event.at_s:.3f}"
        for _, event in view.of(gm.AttemptStarted)
        if within(view.pauses, event.at_s)
    )


def one_at_a_time_while_the_machine_is_full(view):
    for body in view.trace.bodies:
        is_full = within(view.full, body.slot_s) and within(view.full, body.began_s)
        if is_full and body.inside - body.stuck > 1:
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
        if rest.unfinished is not None and rest.unfinished > _window(view, rest.at_s):
            yield f"{rest.unfinished} unfinished at {rest.at_s:.3f}"


def _window(view, at_s):
    return view.rules.window or max(1000, 2 * view.limit_at(at_s))


def what_is_counted_as_running_runs(view):
    for rest in view.trace.rests:
        if rest.running != rest.live:
            yield f"{rest.running} counted at {rest.at_s:.3f}, {rest.live} run"
        for lane in rest.lanes:
            if lane.live is not None and lane.running != lane.live:
                yield f"{lane.running} of key {lane.key!r} counted at {rest.at_s:.3f}, {lane.live} run"
        if rest.done != rest.finished:
            yield f"{rest.done} counted as done at {rest.at_s:.3f}, {rest.finished} are"
        if rest.queued != sum(lane.queued - lane.waiting for lane in rest.lanes):
            yield f"{rest.queued} counted as queued at {rest.at_s:.3f}, {rest.lanes}"


def no_slot_is_wasted(view):
    """When a slot is free, nothing holds the run, and a job could start, then none is left waiting once time passes."""
    throttles = _throttles(view)
    for rest in view.trace.rests:
        if rest.is_durable and _has_slot(view, rest):
            for lane in rest.lanes:
                if (
                    lane.queued
                    and lane.live is not None
                    and lane.live < lane.limit
                    and _lets_start(view, lane, rest.at_s, throttles)
                ):
                    yield f"{lane.queued} of key {lane.key!r} wait at {rest.at_s:.3f} with {rest.live} of {rest.limit} slots taken"


def _has_slot(view, rest):
    if _touches(view.pauses, rest.at_s):
        return False
    return rest.live < (1 if _touches(view.full, rest.at_s) else rest.limit)


def _lets_start(view, lane, at_s, throttles):
    is_gated = view.rules.is_adaptive or lane.key in view.own_lanes
    if is_gated and any(since <= at_s <= since + _LONGEST_GATE_S for since in throttles[lane.key]):
        return False  # its own controller, or what the other side has asked for, may hold it back after a throttle
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
        is_hungry = rest.is_source_open and rest.is_source_ready and not rest.queued and rest.unfinished is not None
        if is_hungry and rest.unfinished < _window(view, rest.at_s):
            yield f"{rest.unfinished} unfinished at {rest.at_s:.3f}, and the source is not asked"


def jobs_start_by_rank(view):
    """In one key, what was queued before this instant and ranks higher starts first, retries included."""
    by_key = defaultdict(list)
    for story in view.stories.values():
        for task in story.tasks.values():
            if task.starts and not _is_reranked(story, task):
                by_key[task.key].append(_spans(view, story, task))
    for key, lane in by_key.items():
        yield from _overtaken(key, lane)


def _is_reranked(story, task):
    """A step may go on in the slot of one that went behind the others, since it found what it depends on unavailable."""
    kinds = [str(event.failure.kind) for other in story.tasks.values() for event in other.retries.values()]
    return bool(task.path) and ("unavailable" in kinds or task.asked_s is None)


def _spans(view, story, task):
    """The spans in which a function or step was queued, each with its rank, its begin, and the time and place of the start at its end.

    It ranks by its job's admission, or by when it last found what it depends on unavailable. Among equals what has begun goes first.
    """
    ranked_s = story.began_s - story.result.queued_s
    queued = [(ranked_s, task.asked_s if task.path else ranked_s)]
    for event in task.retries.values():
        ranked_s = event.at_s if event.failure.kind is gm.Kind.UNAVAILABLE else ranked_s
        queued.append((ranked_s, event.at_s + event.wait_s))
    priority_s = 60.0 * view.scenario.items[story.position].priority
    place = -1 if task.path else story.position
    return [
        ((round(ranked - priority_s, 6), place), begin, at_s, index)
        for (ranked, begin), (index, at_s) in zip(queued, task.starts.values(), strict=False)
    ]


def _overtaken(key, lane):
    for mine, _, started_s, index in chain(*lane):
        for other, begin, _, later in chain(*lane):
            is_higher = other[0] < mine[0]  # what was ranked in one instant may differ by less than the figures told
            if is_higher and begin < started_s - EPS and index < later:
                yield f"position {mine[1]} started at {started_s:.3f} before {other[1]} of key {key!r}"


def equals_start_in_their_order(view):
    last = {}
    for index, event in view.of(gm.AttemptStarted):
        task = view.starts.get(index)
        if task is None or task.path or event.attempt != 1 or len(view.by_id[event.job_id]) != 1:
            continue
        item = view.scenario.items[task.position]
        if task.position < last.get((item.key, item.priority), -1):
            yield f"position {task.position} started after a later one"
        last[item.key, item.priority] = task.position


def one_probe_at_a_time(view):
    """While what a key depends on is down nothing of it starts but a probe, and nothing once it was given up."""
    state, probes, since = defaultdict(lambda: "closed"), Counter(), {}
    keys = {index: task.key for index, task in view.starts.items()}
    for index, event in enumerate(view.trace.events):
        if type(event) is gm.HealthChanged:
            yield from _wrong_turn(view, event, state[event.key], since)
            state[event.key], probes[event.key] = str(event.state), 0
        elif index in keys:
            key = keys[index]
            probes[key] += 1
            if state[key] in ("open", "given_up") or (state[key] == "half_open" and probes[key] > 1):
                yield f"{event.job_id} started at {event.at_s:.3f} while {key!r} was {state[key]}"

    spans = _spans_down(view)
    for call in view.trace.calls:
        is_of_probe = call.key == call.body.key  # a probe may make calls
        if call.began_s is not None and not is_of_probe and within(spans[call.key], call.began_s):
            yield f"a call of {call.body.name} began at {call.began_s:.3f}, while {call.key!r} was down"


def _spans_down(view):
    """The spans of time in which a key let nothing start, or only the probe with which the next one begins."""
    spans, since = defaultdict(list), {}
    for _, event in view.of(gm.HealthChanged):
        if event.key in since:
            spans[event.key].append((since.pop(event.key), event.at_s))
        if str(event.state) != "closed":
            since[event.key] = event.at_s
    for key, at_s in since.items():
        spans[key].append((at_s, float("inf")))
    return spans


def _wrong_turn(view, event, before, since):
    after, key = str(event.state), event.key
    if before == "closed" and after == "open":
        since[key] = event.at_s
    if (before, after) in (
        ("half_open", "half_open"),
        ("closed", "half_open"),
        ("given_up", "closed"),
        ("given_up", "open"),
        ("given_up", "half_open"),
        ("open", "closed"),
    ):
        yield f"{key!r} went from {before} to {after}"
    if (
        (before, after) == ("half_open", "given_up")
        and "probe" in event.reason
        and event.at_s < since[key] + view.rules.park_after_s - EPS
    ):
        yield f"{key!r} was parked after {event.at_s - since[key]:.3f} s"


def an_outage_closes_the_lane(view):
    """For a second after a live attempt found its server down, nothing of its key starts."""
    starts = defaultdict(list)
    for task in view.tasks:
        starts[task.key].extend(at_s for _, at_s in task.starts.values())
    for call in view.trace.calls:
        if call.began_s is not None:
            starts[call.key].append(call.began_s)
    for key, ends in _outages(view).items():
        for down_s in ends:
            yield from (
                f"{key!r} down at {down_s:.3f}, started {at_s:.3f}"
                for at_s in starts[key]
                if down_s + EPS < at_s < down_s + 1 - EPS
            )


def _outages(view):
    """When lanes went from closed to open, found from the bodies alone: the first refusal after an answered start."""
    refusals = defaultdict(list)
    for task in view.tasks:
        for event in task.retries.values():
            if str(event.failure.kind) == "unavailable":
                refusals[task.key].append(event.at_s)
    return {key: sorted(moments)[:1] for key, moments in refusals.items()}


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
