"""A checker that can not fail is a defect: each invariant is shown a trace that breaks it."""

from dataclasses import replace
from functools import cache

import msgspec
import pytest

import graphmill as gm
from graphmill.core.result import Kind, Status
from graphmill.engine.scheduling.health import HealthState
from simulation.invariants import INVARIANTS, broken
from simulation.parts import Act, Consumer, Control, Item, PlanFork, PlanNote, PlanStep, Price, Recording, Rules
from simulation.parts import Server as Free
from simulation.scenario import Scenario
from simulation.simulate import simulate
from simulation.trace import Done

PERMANENT, STUBBORN, LOST = 2, 3, 4
BUSY = Scenario(
    items=(
        Item(acts=(Act(do="transient", s=0.5), Act(s=0.5))),
        Item(acts=(Act(do="throttle", s=0.2, more_s=2.0), Act(s=0.1))),
        Item(acts=(Act(do="permanent", s=0.3),)),
        Item(acts=(Act(do="swallow", s=4.0), Act(s=0.1))),
        Item(acts=(Act(do="transient", s=0.1),)),
        *(Item(acts=(Act(s=1.0),)) for _ in range(10)),
    ),
    rules=Rules(attempts=2, wait_s=0.5, timeout_s=3.0, grace_s=0.5, memory_mark=0.8),
    servers=(("", Free()),),
    consumer=Consumer(is_ordered=True),
    controls=(
        Control(at_s=6.2, do="pause"),
        Control(at_s=7.3, do="unpause"),
        Control(at_s=9.1, do="cancel_job", value=14),
    ),
    memory=((2.0, 0.95), (4.0, 0.1)),
    on_result_s=0.0,
)


HALF = PlanStep(acts=(Act(s=0.5),))
RESUMED = Scenario(
    items=(
        Item(
            plan=(
                PlanNote(),
                HALF,
                PlanFork(
                    lines=((HALF, PlanNote(), HALF), (PlanStep(acts=(Act(do="transient"), Act(s=0.2))),), (PlanNote(),))
                ),
                PlanStep(acts=(Act(s=0.5),), is_unsafe=True),
            )
        ),
        Item(plan=(PlanFork(lines=((HALF, HALF, HALF, HALF),), timeout_s=50.0),)),
    ),
    rules=Rules(concurrency=4),
    controls=(Control(at_s=1.2, do="die"),),
    recording=Recording(commit_s=0.05, restarts=1),
)
UNSAFE = "3"  # the path of a step of the first item
BUDGETED = Scenario(
    items=tuple(Item(acts=(Act(price=Price(most=4, used=2, s=1.0)),)) for _ in range(6)),
    rules=Rules(concurrency=3, budget=9),
)


@cache
def busy():
    return simulate(BUSY)


@cache
def resumed():
    return simulate(RESUMED)


@cache
def budgeted():
    return simulate(BUDGETED)


def with_events(trace, kind, change):
    """Change the first event of a kind; None takes it out."""
    events = list(trace.events)
    index = next(index for index, event in enumerate(events) if type(event) is kind)
    changed = change(events[index])
    events[index : index + 1] = [] if changed is None else [changed]
    return replace(trace, events=tuple(events))


def with_event(trace, event):
    """Tell one event more, at its time."""
    index = next(index for index, other in enumerate(trace.events) if other.at_s > event.at_s)
    return replace(trace, events=(*trace.events[:index], event, *trace.events[index:]))


def with_result(trace, position, **changes):
    events = tuple(
        replace(event, result=msgspec.structs.replace(event.result, **changes))
        if type(event) is gm.JobFinished and event.result.position == position
        else event
        for event in trace.events
    )
    return replace(trace, events=events)


def with_rules(trace, **changes):
    return replace(trace, scenario=replace(trace.scenario, rules=replace(trace.scenario.rules, **changes)))


def with_bodies(trace, **changes):
    return replace(trace, bodies=tuple(replace(body, **changes) for body in trace.bodies))


def with_outcomes(trace, **changes):
    return replace(
        trace, bodies=tuple(replace(body, outcome=replace(body.outcome, **changes)) for body in trace.bodies)
    )


def with_rests(trace, change):
    return replace(trace, rests=tuple(change(rest) for rest in trace.rests))


def with_lanes(trace, **changes):
    return with_rests(trace, lambda rest: replace(rest, lanes=tuple(replace(lane, **changes) for lane in rest.lanes)))


def with_failure(trace, kind):
    return with_events(
        trace, gm.RetryScheduled, lambda event: replace(event, failure=replace(event.failure, kind=kind))
    )


def with_priority(trace, position):
    items = list(trace.scenario.items)
    items[position] = replace(items[position], priority=9)
    return replace(trace, scenario=replace(trace.scenario, items=tuple(items)))


def with_swapped_starts(trace):
    starts = [index for index, event in enumerate(trace.events) if type(event) is gm.AttemptStarted][:2]
    events = list(trace.events)
    first, second = (events[index].job_id for index in starts)
    events[starts[0]] = replace(events[starts[0]], job_id=second)
    events[starts[1]] = replace(events[starts[1]], job_id=first)
    return replace(trace, events=tuple(events))


def done(do, *, at_s=0.0, value=None, answer=True):
    return Done(at_s=at_s, do=do, value=value, answer=answer)


STOPPED = gm.RunStopped(at_s=1.0, reason=gm.StopReason.CANCELLED, message="told")
CANCELLED = gm.Failure(kind=Kind.CANCELLED, message="", type="")

TAMPERED = {
    "no fault of ours": lambda trace: replace(trace, raised="InternalError: oh"),
    "nothing is left": lambda trace: replace(trace, leftovers=("a task",)),
    "one result for each admitted job": lambda trace: with_events(trace, gm.JobFinished, lambda _: None),
    "each result is handed out once": lambda trace: replace(trace, results=trace.results[1:]),
    "results come in order when asked": lambda trace: replace(trace, results=trace.results[::-1]),
    "status and error agree": lambda trace: with_result(trace, PERMANENT, error=None),
    "what is undone has a reason": lambda trace: with_result(
        trace, 0, status=Status.CANCELLED, error=CANCELLED, output=None
    ),
    "a cancelled job stays cancelled": lambda trace: replace(trace, controls=(done("cancel_job", value=0),)),
    "the failure strategy holds": lambda trace: with_rules(trace, on_failure="fail_fast"),
    "the stop has its cause": lambda trace: replace(trace, stopped=gm.StopReason.REQUEST),
    "a stopped run ends in time": lambda trace: replace(trace, ended_s=trace.ended_s + 100),
    "nothing starts after the stop": lambda trace: with_event(trace, STOPPED),
    "the counters agree with the results": lambda trace: replace(trace, statistics=replace(trace.statistics, failed=9)),
    "the source failure is told": lambda trace: with_events(
        trace, gm.SourceEnded, lambda event: replace(event, error="broke")
    ),
    "the story begins and ends": lambda trace: replace(trace, events=trace.events[1:]),
    "alerts are true": lambda trace: replace(trace, alerts=("stalled",)),
    "attempts are counted": lambda trace: with_events(trace, gm.AttemptStarted, lambda _: None),
    "an input is fresh": lambda trace: with_bodies(trace, is_fresh=False),
    "a success is what the live attempt returned": lambda trace: with_outcomes(trace, value="another's"),
    "a failure is what the live attempt raised": lambda trace: with_outcomes(trace, message="another's"),
    "only what may go better is retried": lambda trace: with_failure(trace, Kind.PERMANENT),
    "no attempt is lost": lambda trace: with_rules(trace, attempts=3),
    "waits are as promised": lambda trace: with_events(
        trace, gm.RetryScheduled, lambda event: replace(event, wait_s=0.0)
    ),
    "time outs hold": lambda trace: with_rules(trace, timeout_s=0.01),
    "never more than the limit": lambda trace: replace(trace, limits=((0.0, 1),)),
    "never more than the limit of a key": lambda trace: with_lanes(trace, limit=1),
    "nothing starts while paused": lambda trace: replace(trace, controls=(done("pause", at_s=1.0),)),
    "one at a time while the machine is full": lambda trace: replace(trace, readings=((0.1, 0.95),)),
    "what holds the starts is told": lambda trace: with_rests(trace, lambda rest: replace(rest, held=None)),
    "starting again is told when it is so": lambda trace: with_event(trace, gm.StartsReleased(at_s=7.0)),
    "the window bounds what is unfinished": lambda trace: with_rules(trace, window=5),
    "what is counted as running runs": lambda trace: with_rests(
        trace, lambda rest: replace(rest, running=rest.running + 1)
    ),
    "no slot is wasted": lambda trace: with_rests(with_lanes(trace, live=0), lambda rest: replace(rest, live=0)),
    "no room is wasted": lambda trace: with_rests(
        trace, lambda rest: replace(rest, queued=0, is_source_ready=True, is_source_open=True, unfinished=0)
    ),
    "jobs start by rank": lambda trace: with_priority(trace, 12),
    "equals start in their order": with_swapped_starts,
    "one probe at a time": lambda trace: with_event(
        trace, gm.HealthChanged(at_s=0.1, key="", state=HealthState.OPEN, reason="down")
    ),
    "an outage closes the lane": lambda trace: with_failure(trace, Kind.UNAVAILABLE),
}


def with_one(parts, index, **changes):
    return tuple(replace(part, **changes) if part is parts[index] else part for part in parts)


def with_one_more_body(trace, path):
    body = next(body for body in resumed().bodies if body.position == 0)
    return replace(trace, bodies=(*trace.bodies, replace(body, path=path, began_s=99.0)))


def with_rows(trace, **changes):
    return replace(trace, rows=tuple(replace(row, **changes) for row in trace.rows))


TAMPERED_PROGRAMS = {
    "a step ends once": lambda trace: with_one_more_body(trace, "1"),
    "a replay tells what was recorded": lambda trace: replace(trace, told=with_one(trace.told, 0, value="another's")),
    "a replay tells it in its order": lambda trace: replace(trace, told=trace.told[::-1]),
    "a fork ends with all its lines": lambda trace: replace(
        trace, joins=with_one(trace.joins, 0, open_lines=("2.0.",))
    ),
    "nothing of a line begins after its end": lambda trace: replace(
        trace, lines=with_one(trace.lines, 0, ended_s=-1.0)
    ),
    "the time of a fork holds": lambda trace: replace(
        trace,
        joins=tuple(replace(join, began_s=join.began_s - 99.0) for join in trace.joins),
        bodies=tuple(replace(body, began_s=body.began_s - 99.0) for body in trace.bodies),
    ),
    "a fork hears how its lines ended": lambda trace: replace(trace, joins=with_one(trace.joins, 0, values=("other",))),
    "what is shown is durable": lambda trace: with_rows(trace, committed_s=None),
    "what is unsafe begins when that is durable": lambda trace: with_rows(trace, kind="failed"),
    "what is unsafe is not repeated in doubt": lambda trace: with_one_more_body(trace, UNSAFE),
    "a program ends as its job does": lambda trace: with_result(trace, 0, output=["another's"]),
}


def with_payments(trace, **changes):
    return replace(trace, payments=tuple(replace(payment, **changes) for payment in trace.payments))


TAMPERED_BUDGETS = {
    "never more than the budget": lambda trace: replace(trace, committed=((0.0, 10),)),
    "nothing waits that the budget has room for": lambda trace: with_payments(trace, most=1, used=1),
    "a run pauses when nothing fits its budget": lambda trace: with_payments(trace, used=1),
    "what was spent is told": lambda trace: with_payments(trace, used=1),
}


def test_nothing_is_broken_before_a_trace_is_tampered_with():
    assert broken(busy()) == broken(resumed()) == broken(budgeted()) == []


def test_every_invariant_has_a_trace_that_breaks_it():
    assert {*TAMPERED, *TAMPERED_PROGRAMS, *TAMPERED_BUDGETS} == set(INVARIANTS)


@pytest.mark.parametrize("invariant", TAMPERED)
def test_an_invariant_notices_what_breaks_it(invariant):
    assert invariant in {name for name, _ in broken(TAMPERED[invariant](busy()))}


@pytest.mark.parametrize("invariant", TAMPERED_PROGRAMS)
def test_an_invariant_notices_what_breaks_it_in_a_resumed_run(invariant):
    trace = resumed()
    assert [row.kind for row in trace.known]
    assert invariant in {name for name, _ in broken(TAMPERED_PROGRAMS[invariant](trace))}


@pytest.mark.parametrize("invariant", TAMPERED_BUDGETS)
def test_an_invariant_notices_what_breaks_it_in_a_run_that_its_budget_stops(invariant):
    assert budgeted().stopped is gm.StopReason.BUDGET
    assert invariant in {name for name, _ in broken(TAMPERED_BUDGETS[invariant](budgeted()))}


def test_a_hang_is_noticed():
    assert [name for name, _ in broken(replace(busy(), is_hung=True))] == ["the run ends"]


def test_a_hang_of_an_earlier_process_is_noticed():
    earlier = replace(resumed().earlier[0], is_hung=True)
    assert [name for name, _ in broken(replace(resumed(), earlier=(earlier,)))] == ["the run ends"]
