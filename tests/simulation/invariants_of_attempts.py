"""What must hold of the attempts of every function and step: how many, how they ended, when the next one came."""

from simulation.view import EPS, FREE

_NEVER = float("inf")


def attempts_are_counted(view):
    for task in view.tasks:
        if task.is_ended and task.attempts != task.last:
            yield f"{task.name} says {task.attempts} attempts, {task.last} were started"
        unbegun = len(task.starts) - len(task.bodies)
        if not 0 <= unbegun <= (task.status in (None, "timed_out") or task.is_unsafe):
            yield f"{task.name}: {len(task.starts)} starts, {len(task.bodies)} bodies"
        first = task.before + 1
        if (
            sorted(task.retries) != list(range(first, first + len(task.retries)))
            or not 0 <= len(task.starts) - len(task.retries) <= 1
        ):
            yield f"{task.name} has retries after {sorted(task.retries)} of {len(task.starts)} starts"
    yield from (f"{event.job_id} {event.path} was attempted after its job's end" for event in view.strays)
    strays = {body.position for body in view.trace.bodies} - set(view.stories)
    yield from (f"position {position} ran, but has no result" for position in strays)


def an_input_is_fresh(view):
    yield from (
        f"body {body.number} of {body.position} sees an old input" for body in view.trace.bodies if not body.is_fresh
    )


def a_success_is_what_the_live_attempt_returned(view):
    for task in view.tasks:
        if task.status == "succeeded" and not _is_recalled(view, task):
            yield from _wrong_success(view, task)


def _is_recalled(view, task):
    """Whether how a step ended was known before this process."""
    job_id = view.stories[task.position].job_id
    return any((row.kind, row.job_id, row.path) == ("step", job_id, task.path) for row in view.trace.known)


def _wrong_success(view, task):
    number, body = task.attempts, task.bodies.get(task.attempts)
    output = getattr(task.output, "token", task.output)
    if body is None or body.outcome is None or body.outcome.value != body.name:
        yield f"{task.name} succeeded, but its attempt {number} returned nothing"
        return
    if type(output) is not str or output != body.outcome.value:
        yield f"{task.name} gives the output of another attempt than {number}"
    if abs(body.ended_s - task.ended_s) > EPS:
        yield f"{task.name} succeeded at {task.ended_s:.3f}, its attempt ended at {body.ended_s:.3f}"
    if body.ended_s > _condemned_s(view, task) + EPS:
        yield f"{task.name}: a value of {body.ended_s:.3f} was let in after {_condemned_s(view, task):.3f}"


def _condemned_s(view, task):
    """From when on nothing that the last attempt still returns may count."""
    rules = view.rules
    return min(
        task.bodies[task.last].began_s + task.bodies[task.last].waited_s + (task.timeout_s or _NEVER),
        view.stories[task.position].began_s + (rules.job_timeout_s or _NEVER),
        rules.batch_timeout_s or _NEVER,
        view.last_call_s,
    )


def a_failure_is_what_the_live_attempt_raised(view):
    for task in view.tasks:
        for number, event in task.retries.items():
            if str(event.failure.kind) != "timeout":
                yield from _wrong_failure(task, number, event.failure, event.at_s)
        if task.status == "failed" and task.starts and str(task.failure.kind) != "ambiguous":
            yield from _wrong_failure(task, task.attempts, task.failure, task.ended_s)


def _wrong_failure(task, number, failure, at_s):
    body = task.bodies.get(number)
    if body is None or body.outcome is None or body.outcome.kind is None:
        yield f"{task.name} attempt {number} is told to fail with {failure.kind}, but raised nothing"
        return
    if abs(body.ended_s - at_s) > EPS:
        yield f"{task.name} attempt {number} raised at {body.ended_s:.3f}, told at {at_s:.3f}"
    if str(failure.kind) != ("transient" if body.outcome.kind == "cancelled" else body.outcome.kind):
        yield f"{task.name} attempt {number} raised {body.outcome.kind}, told as {failure.kind}"
    if body.outcome.kind != "cancelled" and failure.message != body.outcome.message and body.outcome.message:
        yield f"{task.name} attempt {number} raised {body.outcome.message!r}, told as {failure.message!r}"


def only_what_may_go_better_is_retried(view):
    for task in view.tasks:
        for number, event in task.retries.items():
            kind = str(event.failure.kind)
            if kind not in ("transient", "timeout", *FREE) or (task.is_unsafe and kind not in FREE):
                yield f"{task.name} attempt {number} was retried after a failure that is {kind}"
            elif (
                kind not in FREE
                and task.tries(number) >= task.most_attempts
                and not (kind == "timeout" and number in task.probes)
            ):
                yield f"{task.name} gets more than {task.most_attempts} tries"


def no_attempt_is_lost(view):
    """A function or step fails for good only when its attempts, or its budget of throttled waits, are used up."""
    for task in view.tasks:
        if not task.starts or task.is_unsafe:
            continue
        kind, tries = None if task.failure is None else str(task.failure.kind), task.tries(task.last)
        if task.status == "failed" and kind == "transient" and tries < task.most_attempts:
            yield f"{task.name} failed after {tries} tries of {task.most_attempts}"
        if task.status == "timed_out" and not _has_reason_to_time_out(view, task):
            yield f"{task.name} timed out after {tries} tries of {task.most_attempts}"
        if task.status == "failed" and kind == "throttled":
            yield from _throttled_too_early(view, task)


def _has_reason_to_time_out(view, task):
    rules, now = view.rules, task.ended_s + EPS
    began_s = view.stories[task.position].began_s
    is_job = not task.path and now >= min(began_s + (rules.job_timeout_s or _NEVER), rules.batch_timeout_s or _NEVER)
    last_s = task.starts[task.last][1]
    return is_job or (now >= last_s + (task.timeout_s or _NEVER) and task.tries(task.last) >= task.most_attempts)


def _throttled_too_early(view, task):
    waits = [event for event in task.retries.values() if str(event.failure.kind) == "throttled"]
    if sum(event.wait_s for event in waits) < view.rules.throttle_budget_s - 0.1 - EPS:
        yield f"{task.name} failed throttled with budget left"
    if waits:
        late_s = (waits[0].at_s + task.ended_s) / 2
        others = (other for other in view.tasks if other.key == task.key)
        ends = [other.ended_s for other in others if other.status == "succeeded"]
        ends += [call.over_s for call in view.trace.calls if call.key == task.key and call.is_answered]
        if not any(at_s >= late_s - EPS for at_s in ends):
            yield f"{task.name} failed throttled, though nothing got through: the run should be parked"


def waits_are_as_promised(view):
    for task in view.tasks:
        throttled_s = 0.0
        for number, event in task.retries.items():
            kind = str(event.failure.kind)
            yield from _wrong_wait(view, task, number, event, left_s=view.rules.throttle_budget_s - throttled_s)
            if kind == "throttled":
                throttled_s += event.wait_s
            if number + 1 in task.starts and task.starts[number + 1][1] < event.at_s + event.wait_s - EPS:
                yield f"{task.name} did not wait for {event.wait_s:.3f} s after attempt {number}"
        if throttled_s > view.rules.throttle_budget_s + EPS:
            yield f"{task.name} waited {throttled_s:.3f} s throttled"


def _wrong_wait(view, task, number, event, *, left_s):
    if str(event.failure.kind) == "unavailable":
        return
    asked = event.failure.retry_after_s
    body = task.bodies.get(number)
    raised = (
        None
        if body is None or body.outcome is None or str(event.failure.kind) == "timeout"
        else body.outcome.retry_after_s
    )
    if asked != raised:
        yield f"{task.name} attempt {number} was asked to wait {raised}, told as {asked}"
    least = max(view.rules.wait_s, asked or 0.0)
    if str(event.failure.kind) == "throttled":  # the last wait is cut to what is left of the budget
        least = min(least, left_s)
    if _is_parking(view, task, event):
        return
    if not least - EPS <= event.wait_s <= _most_wait(view.rules, event.failure, number) + EPS:
        yield f"{task.name} waits {event.wait_s:.3f} s after attempt {number}, at least {least}"


def _is_parking(view, task, event):
    """What was throttled until its budget was used up while nothing got through waits no more: its run is parked at that moment."""
    result = view.stories[task.position].result
    return (
        str(event.failure.kind) == "throttled"
        and event.wait_s == 0.0
        and str(result.status) in ("pending", "cancelled")
    )


def _most_wait(rules, failure, number):
    if failure.retry_after_s is not None:
        return max(0.1, max(rules.wait_s, failure.retry_after_s) * 1.1)
    least = 0.1 if str(failure.kind) == "throttled" else 0.0
    growth = {"fixed": 1, "linear": number, "exponential": 2.0 ** (number - 1)}[rules.backoff]
    return max(least, min(rules.cap_s, rules.wait_s * growth * 1.5))


def time_outs_hold(view):
    """No attempt and no job outlives its time and its grace, unless it is free to do so."""
    rules = view.rules
    for task in view.tasks:
        for number, (_, began_s) in task.starts.items():
            over_s = task.retries[number].at_s if number in task.retries else task.ended_s
            is_known = number in task.retries or task.is_ended
            if (
                is_known
                and over_s > _clock_began_s(task, number, began_s) + (task.timeout_s or _NEVER) + rules.grace_s + EPS
            ):
                yield f"{task.name}: an attempt of {began_s:.3f} was over at {over_s:.3f}"
        for number, event in task.retries.items():
            clock_s = _clock_began_s(task, number, task.starts[number][1])
            is_early = event.at_s < clock_s + (task.timeout_s or _NEVER) - EPS
            if str(event.failure.kind) == "timeout" and is_early:
                yield f"{task.name} attempt {number} timed out too early"
    for story in view.stories.values():
        latest = _NEVER if story.began_s is None else story.began_s + (rules.job_timeout_s or _NEVER) + rules.grace_s
        if story.finished_s > latest + view.slack_s + EPS:
            yield f"{story.job_id} outlived its job's time"


def _clock_began_s(task, number, started_s):
    """An unsafe attempt begins when that it will is durable, and while its nested calls wait an attempt's time stands still."""
    body = task.bodies.get(number)
    return started_s if body is None else body.began_s + body.waited_s


ALL = (
    attempts_are_counted,
    an_input_is_fresh,
    a_success_is_what_the_live_attempt_returned,
    a_failure_is_what_the_live_attempt_raised,
    only_what_may_go_better_is_retried,
    no_attempt_is_lost,
    waits_are_as_promised,
    time_outs_hold,
)
