"""Counts what happened in simulated runs, so that the simulation can not quietly cease to exercise something."""

from collections import Counter

import graphmill as gm
from simulation.view import GENTLE

SEEDS_COUNTED = 500
# How often each must at least happen in so many seeds: about a third of what was seen.
LEAST = {
    "alert: failure_rate": 6,
    "alert: stalled": 100,
    "alert: throttled_share": 6,
    "attempt was abandoned": 30,
    "attempts of a step went on after a restart": 50,
    "attempts used up": 150,
    "call waited for the budget": 25,
    "consumer stopped early": 10,
    "consumer took and released": 30,
    "drained twice": 2,
    "fork in a fork": 100,
    "fork ran out of time": 60,
    "fork was stopped by a failure": 25,
    "fork": 110,
    "function left with SystemExit": 8,
    "job is cancelled": 450,
    "job is failed": 100,
    "job is pending": 350,
    "job is succeeded": 650,
    "job is timed_out": 250,
    "job outlived its deadline": 70,
    "job was cancelled by hand": 20,
    "lane is closed": 30,
    "lane is half_open": 100,
    "lane is open": 100,
    "lane is given_up": 30,
    "late value was fenced off": 10,
    "limit adapted": 13,
    "limit was changed by hand": 20,
    "limit was lowered below what ran": 1,
    "line was closed": 500,
    "machine was full": 20,
    "note was replayed": 30,
    "nested call": 100,
    "nested call waited": 6,
    "note": 200,
    "one ran on a full machine": 10,
    "priority mattered": 40,
    "process died": 30,
    "result of an odd value": 20,
    "results in order": 40,
    "retry after throttled": 1500,
    "retry after timeout": 350,
    "retry after transient": 100,
    "retry after unavailable": 100,
    "run was paused": 20,
    "run was resumed": 70,
    "something ended by itself while draining": 10,
    "source failed": 8,
    "source repeated an id": 8,
    "source: jobs": 20,
    "source: list": 50,
    "source: stream": 80,
    "step was ambiguous": 20,
    "step was replayed": 100,
    "step was retried": 350,
    "step": 750,
    "stopped: budget": 15,
    "stopped: cancelled": 20,
    "stopped: deadline": 10,
    "stopped: request": 10,
    "stopped: fail_fast": 4,
    "stopped: max_failures": 10,
    "stopped: none": 60,
    "stopped: outage": 30,
    "throttle budget used up": 8,
    "unsafe step": 70,
    "window was full": 60,
}


def happened(view):
    """Count what happened in one run."""
    trace, scenario = view.trace, view.scenario
    found = Counter()
    found[f"source: {scenario.source.kind}"] += 1
    found["source failed"] += trace.raised == "SourceError"
    found["source repeated an id"] += trace.raised == "DuplicateIdError"
    found["consumer took and released"] += scenario.consumer.kind == "take"
    found["consumer stopped early"] += scenario.consumer.stops_after is not None
    found["results in order"] += scenario.consumer.is_ordered and scenario.consumer.kind == "read"
    found["window was full"] += any(rest.unfinished == view.rules.window for rest in trace.rests)
    found["priority mattered"] += any(item.priority for item in scenario.items)
    found[f"stopped: {trace.stopped or 'none'}"] += 1
    found["machine was full"] += len(view.full)
    found["one ran on a full machine"] += any(
        since < body.began_s < until for since, until in view.full for body in trace.bodies
    )
    found["drained twice"] += sum(done.do == "drain" and done.answer is True for done in trace.controls) > 1
    return found + _of_jobs(view) + _of_events(view) + _of_controls(view) + _of_programs(view)


def _of_jobs(view):
    found = Counter()
    for story in view.stories.values():
        found[f"job is {story.result.status}"] += 1
        found["job outlived its deadline"] += "job_timeout_s" in str(story.result.error)
        found["result of an odd value"] += hasattr(story.result.output, "token")
        if view.trace.stopped in GENTLE and story.finished_s > view.stopped_s:
            found["something ended by itself while draining"] += story.result.is_success
    for task in view.tasks:
        found += _of_task(task)
    return found


def _of_task(task):
    found = Counter()
    found["attempts used up"] += task.status in ("failed", "timed_out") and 1 < task.most_attempts == task.tries(
        task.last
    )
    found["throttle budget used up"] += task.failure is not None and str(task.failure.kind) == "throttled"
    for number, body in task.bodies.items():
        over_s = task.retries[number].at_s if number in task.retries else task.ended_s
        is_abandoned = body.ended_s is None or body.ended_s > over_s
        found["attempt was abandoned"] += is_abandoned
        found["function left with SystemExit"] += body.outcome is not None and body.outcome.is_exit
        found["late value was fenced off"] += (
            body.outcome is not None
            and body.outcome.kind is None
            and not (task.status == "succeeded" and number == task.attempts)
        )
    return found


def _of_programs(view):
    trace, forks, found = view.trace, view.scenario.forks(), Counter()
    known = {(row.job_id, row.path) for row in trace.known}
    for told in trace.told:
        kind = "note" if not told.attempts else "step"
        is_replayed = (f"j{told.position}", told.path) in known
        found[f"{kind} was replayed" if is_replayed else kind] += 1
        found["step was ambiguous"] += told.failure is not None and str(told.failure.kind) == "ambiguous"
    for join in trace.joins:
        found["fork in a fork" if "." in join.path else "fork"] += 1
        found["fork ran out of time"] += join.is_expired
        found["fork was stopped by a failure"] += _was_stopped(trace, forks[join.position, join.path], join)
    for call in trace.calls:
        found["nested call"] += 1
        found["nested call waited"] += call.began_s != call.asked_s
    found["call waited for the budget"] += sum(payment.granted_s != payment.asked_s for payment in trace.payments)
    found["line was closed"] += sum(line.end == "closed" for line in trace.lines)
    found["process died"] += trace.is_dead
    found["run was resumed"] += bool(trace.earlier and trace.offered)
    for task in view.tasks:
        found["step was retried"] += bool(task.path and task.retries)
        found["attempts of a step went on after a restart"] += bool(task.path and task.before and task.starts)
        found["unsafe step"] += task.is_unsafe
    return found


def _was_stopped(trace, fork, join):
    ends = [line for line in trace.lines if line.position == join.position and line.path.startswith(f"{join.path}.")]
    return fork.stops_on_failure and any(line.end == "closed" for line in ends)


def _of_events(view):
    found = Counter()
    for event in view.trace.events:
        if type(event) is gm.RetryScheduled:
            found[f"retry after {event.failure.kind}"] += 1
        elif type(event) is gm.HealthChanged:
            found[f"lane is {event.state}"] += 1
        elif type(event) is gm.ConcurrencyChanged:
            found["limit was changed by hand" if event.key is None else "limit adapted"] += 1
        elif type(event) is gm.AlertRaised:
            found[f"alert: {event.alert.name}"] += 1
    return found


def _of_controls(view):
    found = Counter()
    for done in view.trace.controls:
        found["job was cancelled by hand"] += done.do == "cancel_job" and done.answer is True
        found["run was paused"] += done.do == "pause" and done.answer is True
    found["limit was lowered below what ran"] += any(rest.live > rest.limit for rest in view.trace.rests)
    return found
