"""What must hold of every job's attempts: how many, how they ended, when the next one came."""

from graphmill.core.result import Status
from simulation.view import EPS, FREE

_NEVER = float("inf")


def attempts_are_counted(view):
    for story in view.stories.values():
        if story.result.attempts != len(story.starts):
            yield f"{story.job_id} says {story.result.attempts} attempts, {len(story.starts)} were started"
        if len(story.bodies) not in (len(story.starts), len(story.starts) - _was_ended_unbegun(view, story)):
            yield f"{story.job_id}: {len(story.starts)} starts, {len(story.bodies)} bodies"
        if (
            sorted(story.retries) != list(range(1, len(story.retries) + 1))
            or not 0 <= len(story.starts) - len(story.retries) <= 1
        ):
            yield f"{story.job_id} has retries after {sorted(story.retries)} of {len(story.starts)} starts"
    strays = {body.position for body in view.trace.bodies} - set(view.stories)
    yield from (f"position {position} ran, but has no result" for position in strays)


def _was_ended_unbegun(view, story):
    return story.result.status in (Status.CANCELLED, Status.PAUSED, Status.TIMED_OUT)


def an_input_is_fresh(view):
    yield from (
        f"body {body.number} of {body.position} sees an old input" for body in view.trace.bodies if not body.is_fresh
    )


def a_success_is_what_the_live_attempt_returned(view):
    for story in view.stories.values():
        if story.result.status is Status.SUCCEEDED:
            yield from _wrong_success(view, story)


def _wrong_success(view, story):
    number, body = story.result.attempts, story.bodies.get(story.result.attempts)
    output = getattr(story.result.output, "token", story.result.output)
    if body is None or body.outcome is None or body.outcome.value != f"{story.position}/{number}":
        yield f"{story.job_id} succeeded, but its attempt {number} returned nothing"
        return
    if type(output) is not str or output != body.outcome.value:
        yield f"{story.job_id} gives the output of another attempt than {number}"
    if abs(body.ended_s - story.finished_s) > EPS:
        yield f"{story.job_id} succeeded at {story.finished_s:.3f}, its attempt ended at {body.ended_s:.3f}"
    if body.ended_s > _condemned_s(view, story) + EPS:
        yield f"{story.job_id}: a value of {body.ended_s:.3f} was let in after {_condemned_s(view, story):.3f}"


def _condemned_s(view, story):
    """From when on nothing that the last attempt still returns may count."""
    rules = view.rules
    return min(
        story.starts[-1][1] + (rules.timeout_s or _NEVER),
        story.starts[0][1] + (rules.job_timeout_s or _NEVER),
        rules.batch_timeout_s or _NEVER,
        view.last_call_s,
    )


def a_failure_is_what_the_live_attempt_raised(view):
    for story in view.stories.values():
        for number, event in story.retries.items():
            if str(event.failure.kind) != "timeout":
                yield from _wrong_failure(story, number, event.failure, event.at_s)
        if story.result.status is Status.FAILED:
            yield from _wrong_failure(story, story.result.attempts, story.result.error, story.finished_s)


def _wrong_failure(story, number, failure, at_s):
    body = story.bodies.get(number)
    if body is None or body.outcome is None or body.outcome.kind is None:
        yield f"{story.job_id} attempt {number} is told to fail with {failure.kind}, but raised nothing"
        return
    if abs(body.ended_s - at_s) > EPS:
        yield f"{story.job_id} attempt {number} raised at {body.ended_s:.3f}, told at {at_s:.3f}"
    if str(failure.kind) != ("transient" if body.outcome.kind == "cancelled" else body.outcome.kind):
        yield f"{story.job_id} attempt {number} raised {body.outcome.kind}, told as {failure.kind}"
    if body.outcome.kind != "cancelled" and failure.message != body.outcome.message and body.outcome.message:
        yield f"{story.job_id} attempt {number} raised {body.outcome.message!r}, told as {failure.message!r}"


def only_what_may_go_better_is_retried(view):
    for story in view.stories.values():
        for number, event in story.retries.items():
            kind = str(event.failure.kind)
            if kind not in ("transient", "timeout", *FREE):
                yield f"{story.job_id} attempt {number} was retried after a failure that is {kind}"
            elif (
                kind not in FREE
                and story.tries(number) >= view.rules.attempts
                and not (kind == "timeout" and number in story.probes)
            ):
                yield f"{story.job_id} gets more than {view.rules.attempts} tries"


def no_attempt_is_lost(view):
    """A job fails for good only when its attempts, or its budget of throttled waits, are used up."""
    for story in view.stories.values():
        error, number = story.result.error, len(story.starts)
        if (
            story.result.status is Status.FAILED
            and str(error.kind) == "transient"
            and story.tries(number) < view.rules.attempts
        ):
            yield f"{story.job_id} failed after {story.tries(number)} tries of {view.rules.attempts}"
        if story.result.status is Status.TIMED_OUT and not _has_reason_to_time_out(view, story):
            yield f"{story.job_id} timed out after {story.tries(number)} tries of {view.rules.attempts}"
        if story.result.status is Status.FAILED and str(error.kind) == "throttled":
            yield from _throttled_too_early(view, story)


def _has_reason_to_time_out(view, story):
    rules, now = view.rules, story.finished_s + EPS
    if now >= story.starts[0][1] + (rules.job_timeout_s or _NEVER) or now >= (rules.batch_timeout_s or _NEVER):
        return True
    return now >= story.starts[-1][1] + (rules.timeout_s or _NEVER) and story.tries(len(story.starts)) >= rules.attempts


def _throttled_too_early(view, story):
    waits = [event for event in story.retries.values() if str(event.failure.kind) == "throttled"]
    if sum(event.wait_s for event in waits) < view.rules.throttle_budget_s - 0.1 - EPS:
        yield f"{story.job_id} failed throttled with budget left"
    if waits:
        late_s = (waits[0].at_s + story.finished_s) / 2
        key = view.key_of(story)
        others = (other for other in view.stories.values() if view.key_of(other) == key)
        if not any(other.result.is_success and other.finished_s >= late_s - EPS for other in others):
            yield f"{story.job_id} failed throttled, though nothing got through: the run should be parked"


def waits_are_as_promised(view):
    for story in view.stories.values():
        throttled_s = 0.0
        for number, event in story.retries.items():
            kind = str(event.failure.kind)
            yield from _wrong_wait(view.rules, story, number, event, left_s=view.rules.throttle_budget_s - throttled_s)
            if kind == "throttled":
                throttled_s += event.wait_s
            if number < len(story.starts) and story.starts[number][1] < event.at_s + event.wait_s - EPS:
                yield f"{story.job_id} did not wait for {event.wait_s:.3f} s after attempt {number}"
        if throttled_s > view.rules.throttle_budget_s + EPS:
            yield f"{story.job_id} waited {throttled_s:.3f} s throttled"


def _wrong_wait(rules, story, number, event, *, left_s):
    if str(event.failure.kind) == "unavailable":
        return
    asked = event.failure.retry_after_s
    body = story.bodies.get(number)
    raised = (
        None
        if body is None or body.outcome is None or str(event.failure.kind) == "timeout"
        else body.outcome.retry_after_s
    )
    if asked != raised:
        yield f"{story.job_id} attempt {number} was asked to wait {raised}, told as {asked}"
    least = max(rules.wait_s, asked or 0.0)
    if str(event.failure.kind) == "throttled":  # the last wait is cut to what is left of the budget
        least = min(least, left_s)
    if _is_parking(rules, story, event):
        return
    if not least - EPS <= event.wait_s <= _most_wait(rules, event.failure, number) + EPS:
        yield f"{story.job_id} waits {event.wait_s:.3f} s after attempt {number}, at least {least}"


def _is_parking(rules, story, event):
    """A throttled job whose budget is used up while nothing got through waits no more: its run is parked at that moment."""
    return (
        str(event.failure.kind) == "throttled"
        and event.wait_s == 0.0
        and str(story.result.status) in ("paused", "cancelled")
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
    for story in view.stories.values():
        ends = [event.at_s for event in story.retries.values()][: len(story.starts)]
        ends += [story.finished_s] * (len(story.starts) - len(ends))
        for (_, began_s), over_s in zip(story.starts, ends, strict=False):
            if over_s > began_s + (rules.timeout_s or _NEVER) + rules.grace_s + EPS:
                yield f"{story.job_id}: an attempt of {began_s:.3f} was over at {over_s:.3f}"
        for number, event in story.retries.items():
            if (
                str(event.failure.kind) == "timeout"
                and event.at_s < story.starts[number - 1][1] + (rules.timeout_s or _NEVER) - EPS
            ):
                yield f"{story.job_id} attempt {number} timed out too early"
        if (
            story.starts
            and story.finished_s > story.starts[0][1] + (rules.job_timeout_s or _NEVER) + rules.grace_s + EPS
        ):
            yield f"{story.job_id} outlived its job's time"


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
