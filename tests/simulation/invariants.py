"""What must hold after every simulated run, whatever happened in it: one function an invariant, each yields what is wrong."""

from collections import Counter
from itertools import pairwise

import graphmill as gm
from graphmill.core.result import Status
from simulation import invariants_of_attempts, invariants_of_budgets, invariants_of_programs, invariants_of_slots
from simulation.view import EPS, GENTLE, View

_OF_JOBS = (gm.AttemptStarted, gm.RetryScheduled, gm.JobFinished, gm.SourceEnded, gm.RunStopped)
_KINDS = {
    Status.SUCCEEDED: {None},
    Status.FAILED: {"transient", "permanent", "throttled", "ambiguous"},
    Status.TIMED_OUT: {"timeout"},
    Status.CANCELLED: {"cancelled"},
    Status.PENDING: {"paused"},
}


def broken(trace):
    """Name every invariant that this trace breaks, with what is wrong."""
    return [problem for process in (*trace.earlier, trace) for problem in _broken(process)]


def _broken(trace):
    if trace.is_hung:
        return [("the run ends", f"nothing left to wait for at {trace.ended_s:.3f}")]
    if trace.statistics is None:
        return [("the scenario makes sense", trace.raised)]
    view = View(trace)
    is_untold = trace.is_dead or (trace.scenario.recording is not None and _was_closed_in_haste(view))
    checked = {name: INVARIANTS[name] for name in OF_THE_DEAD} if is_untold else INVARIANTS
    return [(name, problem) for name, invariant in checked.items() for problem in _problems(invariant, view)]


def _problems(invariant, view):
    try:
        yield from invariant(view)
    except Exception as error:  # noqa: BLE001  a trace too broken to be read is broken
        yield f"can not be read: {error!r}"


def no_fault_of_ours(view):
    trace = view.trace
    if (trace.raised or "").startswith("InternalError"):
        yield trace.raised
    yield from trace.complaints
    if trace.statistics.hook_errors:
        yield f"{trace.statistics.hook_errors} errors of hooks that never fail"


def nothing_is_left(view):
    yield from view.trace.leftovers


def one_result_for_each_admitted_job(view):
    counts = Counter(result.position for result in view.finished)
    yield from (f"position {position} has {count} results" for position, count in counts.items() if count > 1)
    trace, has_failed = view.trace, _failed_at(view)
    wanted = {position for _, position in trace.admitted if position != has_failed}
    if trace.scenario.source.kind == "jobs" or trace.scenario.recording is not None:
        wanted = set(trace.offered) if trace.stopped is None and has_failed is None else set(counts)
        if (
            has_failed is not None
            and trace.stopped is None
            and len(counts) != has_failed
            and not _is_ranked(trace.scenario)
        ):
            yield f"{len(counts)} results of the {has_failed} jobs before the source failed"
    yield from (f"position {position} has no result" for position in wanted - set(counts))
    yield from (f"position {position} was never admitted" for position in set(counts) - wanted)
    yield from (f"position {position} was not offered" for position in set(counts) - set(trace.offered))


def _failed_at(view):
    """Where the source ended with an error: that position was bound, but not admitted."""
    return next((event.count for _, event in view.of(gm.SourceEnded) if event.error is not None), None)


def _is_ranked(scenario):
    return any(item.priority for item in scenario.items)


def each_result_is_handed_out_once(view):
    trace = view.trace
    taken = Counter(result.position for _, result in trace.results)
    yield from (f"position {position} was handed out {count} times" for position, count in taken.items() if count > 1)
    finished = {result.position: result for result in view.finished}
    yield from (
        f"position {r.position} was handed out changed" for _, r in trace.results if finished.get(r.position) is not r
    )
    if (trace.is_read_out or (trace.raised in ("SourceError", "DuplicateIdError"))) and set(taken) != set(finished):
        yield f"read to the end, but {sorted(set(finished) ^ set(taken))[:5]} were not handed out"
    if trace.scenario.on_result_s is not None:
        yield from (
            f"on_result saw {position} {count} times" for position, count in Counter(trace.shown).items() if count > 1
        )
        if not set(taken) <= set(trace.shown):
            yield f"handed out before on_result saw it: {sorted(set(taken) - set(trace.shown))[:5]}"


def results_come_in_order_when_asked(view):
    consumer = view.scenario.consumer
    positions = [result.position for _, result in view.trace.results]
    if consumer.is_ordered and consumer.kind == "read" and positions != list(view.trace.offered[: len(positions)]):
        yield f"positions {positions[:20]}"


def status_and_error_agree(view):
    for result in view.finished:
        kind = None if result.error is None else str(result.error.kind)
        if kind not in _KINDS.get(result.status, ()):
            yield f"{result.job_id} is {result.status} with error {kind}"
        if result.status is not Status.SUCCEEDED and result.output is not None:
            yield f"{result.job_id} is {result.status} but has an output"
        if result.queued_s < 0 or result.duration_s < 0:
            yield f"{result.job_id} took less than no time"


def what_is_undone_has_a_reason(view):
    stopped = view.trace.stopped
    for result in view.finished:
        if result.status is Status.CANCELLED and stopped is None and not view.was_cancelled(result.job_id):
            yield f"{result.job_id} is cancelled, but nobody cancelled it"
        if result.status is Status.PENDING and stopped not in GENTLE:
            yield f"{result.job_id} is paused, but the run was {stopped}"


def a_cancelled_job_stays_cancelled(view):
    ends = {Status.CANCELLED, Status.TIMED_OUT, Status.PENDING}
    for result in view.finished:
        if len(view.by_id[result.job_id]) == 1 and view.was_cancelled(result.job_id) and result.status not in ends:
            yield f"{result.job_id} was cancelled and is {result.status}"


def the_failure_strategy_holds(view):
    rules, stopped = view.rules, view.trace.stopped
    exceeded_s = _exceeded_s(view)
    is_exceeded = exceeded_s < float("inf")
    failed = sum(result.is_failure for result in view.finished)
    strategic = (gm.StopReason.FAIL_FAST, gm.StopReason.MAX_FAILURES)
    if stopped is None and any(
        type(event) in _OF_JOBS and event.at_s > exceeded_s + EPS for event in view.trace.events
    ):
        yield f"{failed} failed, and the run went on"  # where nothing was left to stop, it just ends
    if not is_exceeded and stopped in strategic:
        yield f"stopped as {stopped} with {failed} failed"
    if stopped in strategic and (stopped is gm.StopReason.FAIL_FAST) is not (rules.on_failure == "fail_fast"):
        yield f"stopped as {stopped} under {rules.on_failure}"
    if rules.on_failure == "fail_fast" and sum(result.status is Status.FAILED for result in view.finished) > 1:
        yield "more than one job failed"
    if (
        type(rules.max_failures) is int
        and sum(result.status is Status.FAILED for result in view.finished) > rules.max_failures + 1
    ):
        yield f"more than {rules.max_failures} + 1 jobs failed"


def _exceeded_s(view):
    """When more had failed than was tolerated."""
    judged = failed = 0
    for result in view.finished:
        judged += result.is_success or result.is_failure
        failed += result.is_failure
        if _is_too_much(view.rules, failed, judged):
            return _finished_s(view, result)
    return float("inf")


def _is_too_much(rules, failed, judged):
    if rules.on_failure == "fail_fast":
        return failed > 0
    if rules.max_failures is None:
        return False
    if type(rules.max_failures) is int:
        return failed > rules.max_failures
    return judged >= 20 and failed / judged > rules.max_failures


def the_stop_has_its_cause(view):
    trace, reason = view.trace, view.trace.stopped
    if (None if view.stop is None else view.stop.reason) is not reason:
        yield f"told {view.stop}, but stopped is {reason}"
    if (reason is None) is not (trace.because == ""):
        yield f"stopped as {reason} because {trace.because!r}"
    done = {used.do for used in trace.controls if used.answer is not False}
    causes = {
        gm.StopReason.CANCELLED: "cancel_run" in done or "kill" in done or not (trace.is_read_out or trace.raised),
        gm.StopReason.REQUEST: "drain" in done,
        gm.StopReason.DEADLINE: view.rules.batch_timeout_s is not None
        and abs(view.stopped_s - view.rules.batch_timeout_s) < EPS,
        gm.StopReason.OUTAGE: any(
            event.state == "given_up" and event.reason in trace.because for _, event in view.of(gm.HealthChanged)
        ),
        gm.StopReason.BUDGET: view.budget is not None,
        gm.StopReason.STUCK: len(trace.bodies) > 100,
    }
    if not causes.get(reason, True):
        yield f"stopped as {reason} without a cause"


def a_stopped_run_ends_in_time(view):
    trace = view.trace
    latest = view.last_call_s + view.rules.grace_s + view.slack_s
    late = [result.job_id for result in view.finished if _finished_s(view, result) > latest + EPS]
    if late:
        yield f"{late[:5]} ended after {latest:.3f}"
    bound = max(trace.left_s, min(latest, trace.left_s + view.rules.grace_s) if view.stop is None else latest)
    if trace.ended_s > bound + 2 * view.rules.grace_s + 5.0 + EPS:
        yield f"left at {trace.left_s:.3f}, over at {trace.ended_s:.3f}"
    deadline = view.rules.batch_timeout_s
    if deadline is not None and any(start.at_s > deadline + EPS for _, start in view.of(gm.AttemptStarted)):
        yield "something started after the batch's deadline"


def _finished_s(view, result):
    return view.stories[result.position].finished_s


def nothing_starts_after_the_stop(view):
    stops = [index for index, _ in view.of(gm.RunStopped)]
    if stops:
        yield from (f"{event.job_id} started" for index, event in view.of(gm.AttemptStarted) if index > stops[0])


def the_counters_agree_with_the_results(view):
    trace, statistics = view.trace, view.trace.statistics
    by_status = Counter(result.status for result in view.finished)
    for name in ("succeeded", "failed", "timed_out", "cancelled", "waiting", "pending"):
        if not getattr(statistics, name) == by_status[Status(name)] == getattr(trace.readouts[-1], name):
            yield f"{name}: {getattr(statistics, name)} counted, {by_status[Status(name)]} results"
    if not statistics.done == len(view.finished) == trace.readouts[-1].done:
        yield f"done: {statistics.done} counted, {len(view.finished)} results"
    if statistics.retries != sum(max(0, result.attempts - 1) for result in view.finished):
        yield f"{statistics.retries} retries counted"
    if sum(group.count for group in statistics.errors) != statistics.failed + statistics.timed_out:
        yield "the groups of errors do not sum up"
    stuck = sum(body.ended_s is None for body in trace.bodies)
    if statistics.stuck != stuck:
        yield f"{statistics.stuck} counted as stuck, {stuck} are"
    if trace.readouts[-1].running or trace.readouts[-1].queued or trace.readouts[-1].retrying:
        yield "something runs or waits after the end"
    yield from (f"a readout of {p.done} done goes back" for q, p in pairwise(trace.readouts) if p.done < q.done)


def the_source_failure_is_told(view):
    trace = view.trace
    error = next((event.error for _, event in view.of(gm.SourceEnded)), None)
    if trace.is_read_out and error is not None:
        yield f"the source failed ({error}), and nobody was told"
    if trace.raised in ("SourceError", "DuplicateIdError") and error is None:
        yield f"{trace.raised} was raised, but the source did not fail"


def the_story_begins_and_ends(view):
    events = view.trace.events
    kinds = [type(event) for event in events]
    ends = kinds.count(gm.RunFinished)
    if kinds[0] is not gm.RunStarted or not (ends == 1 or (ends == 0 and _was_closed_in_haste(view))):
        yield f"from {kinds[0].__name__} to {kinds[-1].__name__}"
    elif ends and any(kind in _OF_JOBS for kind in kinds[kinds.index(gm.RunFinished) :]):
        yield "something happens to a job after the run has finished"
    if any(late.at_s < early.at_s for early, late in pairwise(events)):
        yield "time goes back"


def _was_closed_in_haste(view):
    """Whether its task was cancelled when the run was left already: then it waits no longer until all is told."""
    return any(done.do == "kill" and done.at_s >= view.trace.left_s - EPS for done in view.trace.controls)


def alerts_are_true(view):
    judged_s = [(_finished_s(view, result)) for result in view.finished if result.is_success or result.is_failure]
    told = [event.alert.name for _, event in view.of(gm.AlertRaised)]
    if told != list(view.trace.alerts):
        yield f"told {told}, alerted {view.trace.alerts}"
    for _, event in view.of(gm.AlertRaised):
        if event.alert.threshold is not None and event.alert.value < event.alert.threshold:
            yield f"{event.alert.name} at {event.alert.value}"
        if event.alert.name == "stalled" and any(
            event.at_s - event.alert.threshold + EPS < at_s < event.at_s - EPS for at_s in judged_s
        ):
            yield f"called stalled at {event.at_s}, but something had finished"
        if event.alert.name == "failure_rate" and sum(at_s <= event.at_s + EPS for at_s in judged_s) < 20:
            yield "a failure rate of less than twenty"


# What can be said of a process that died, or stopped waiting for commits: it never told what became of all its jobs.
OF_THE_DEAD = (
    "no fault of ours",
    "nothing is left",
    "never more than the limit",
    "never more than the limit of a key",
    "nothing starts while paused",
    "one at a time while the machine is full",
    "the window bounds what is unfinished",
    "what is counted as running runs",
    "no slot is wasted",
    *(invariant.__name__.replace("_", " ") for invariant in invariants_of_programs.OF_THE_DEAD),
    *(invariant.__name__.replace("_", " ") for invariant in invariants_of_budgets.OF_THE_DEAD),
)
_OWN = (
    no_fault_of_ours,
    nothing_is_left,
    one_result_for_each_admitted_job,
    each_result_is_handed_out_once,
    results_come_in_order_when_asked,
    status_and_error_agree,
    what_is_undone_has_a_reason,
    a_cancelled_job_stays_cancelled,
    the_failure_strategy_holds,
    the_stop_has_its_cause,
    a_stopped_run_ends_in_time,
    nothing_starts_after_the_stop,
    the_counters_agree_with_the_results,
    the_source_failure_is_told,
    the_story_begins_and_ends,
    alerts_are_true,
)
_ALL = (
    *_OWN,
    *invariants_of_attempts.ALL,
    *invariants_of_slots.ALL,
    *invariants_of_programs.ALL,
    *invariants_of_budgets.ALL,
)
INVARIANTS = {invariant.__name__.replace("_", " "): invariant for invariant in _ALL}
