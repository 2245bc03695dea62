"""What must hold of programs and of what is recorded: through all processes of a run, each step ends once and is never forgotten."""

import json
from collections import defaultdict
from itertools import pairwise

import graphmill as gm
from simulation.view import EPS, FREE

_HASTE_S = 0.5  # the longest grace of a run that is drained in haste
_NEVER = float("inf")


def a_step_ends_once(view):
    """No body of a step begins after it has ended, be it in an earlier process that could record that."""
    ended = dict.fromkeys(_recorded(view, "step"), -_NEVER)
    for told in view.trace.told:
        key = told.position, told.path
        if told.attempts and key in ended and ended[key] > -_NEVER:
            yield f"{told.path} of position {told.position} ended twice"
        if told.attempts:
            ended[key] = max(told.at_s, ended.get(key, -_NEVER))
    for body in view.trace.bodies:
        at_s = ended.get((body.position, body.path))
        if at_s is not None and body.began_s > at_s + EPS:
            yield f"{body.name} began at {body.began_s:.3f}, though the step had ended"


def a_replay_tells_what_was_recorded(view):
    """A step or note that was recorded comes to what it came to then."""
    recorded = _recorded(view, "step", "note")
    for told in view.trace.told:
        row = recorded.get((told.position, told.path))
        if row is None:
            continue
        failure = row.outcome.failure
        value = json.loads(row.outcome.body) if failure is None else str(failure.kind)
        if (told.value, told.failure) != (value, failure):
            yield f"{told.path} of position {told.position} is {told.value!r}, {value!r} was recorded"


def a_replay_tells_it_in_its_order(view):
    """What was recorded is told first, and in the order in which it was; where the clock or what is not recorded decides, in any."""
    orders = defaultdict(list)
    places = {key: place for place, key in enumerate(_recorded(view, "step", "note"))}
    for told in view.trace.told:
        if (told.position, told.path) in places and not _is_undetermined(view, told.position):
            orders[told.position].append((places[told.position, told.path], told))
    for position, heard in orders.items():
        order = [place for place, _ in heard]
        if order != sorted(order):
            yield f"position {position} was told {[told.path for _, told in heard]}"
        yield from (f"position {position} went on before it was told of {told.path}" for _, told in heard if told.begun)


def _is_undetermined(view, position):
    timed = [at for at, fork in view.scenario.forks().items() if fork.timeout_s is not None]
    forgotten = [at for at, step in view.scenario.steps().items() if not step.is_recorded]
    return any(at[0] == position for at in (*timed, *forgotten))


def _recorded(view, *kinds):
    """The rows of these kinds that earlier processes had committed, in their order, by position and path."""
    return {(int(row.job_id[1:]), row.path): row for row in view.trace.known if row.kind in kinds}


def a_fork_ends_with_all_its_lines(view):
    for join in view.trace.joins:
        if join.open_lines:
            yield f"position {join.position} went on after fork {join.path}, but {join.open_lines} had not ended"
        grace_s = min(view.rules.grace_s, _HASTE_S)
        for body in join.live:
            if body.began_s + grace_s > join.at_s + EPS:
                yield f"position {join.position} went on after fork {join.path} while {body.name} ran"


def nothing_of_a_line_begins_after_its_end(view):
    """Nor of its job: what is closed, cancelled or over is left alone."""
    ends = {(line.position, line.path): line.ended_s for line in view.trace.lines if line.ended_s is not None}
    for body in view.trace.bodies:
        if not body.path:
            continue
        line = body.path[: body.path.rfind(".") + 1]
        ended_s = ends.get((body.position, line))
        if ended_s is not None and body.began_s > ended_s + EPS:
            yield f"{body.name} began at {body.began_s:.3f}, its line ended at {ended_s:.3f}"


def the_time_of_a_fork_holds(view):
    forks = view.scenario.forks()
    for join in view.trace.joins:
        timeout_s = forks[join.position, join.path].timeout_s
        if timeout_s is not None and _busy_s(view, join) > timeout_s + view.rules.grace_s + view.slack_s + EPS:
            yield f"fork {join.path} of position {join.position} was busy for {_busy_s(view, join):.3f} s"
        is_early = timeout_s is not None and join.at_s < join.began_s + timeout_s - EPS
        if join.is_expired and is_early and not view.trace.known:
            yield f"fork {join.path} of position {join.position} expired after {join.at_s - join.began_s:.3f} s"


def _busy_s(view, join):
    """For how long something below a fork ran or waited before a retry, other than for a lane or as a server asked."""
    spans, ends = [], {line.path: line.ended_s for line in view.trace.lines if line.position == join.position}
    for body in view.trace.bodies:
        if body.position == join.position and body.path.startswith(f"{join.path}."):
            spans += [(body.path, *span) for span in _running(view, body, join)]
    story = view.stories.get(join.position)
    for task in () if story is None else story.tasks.values():
        if task.path.startswith(f"{join.path}."):
            waits = [(event.at_s, event.wait_s) for event in task.retries.values() if not _is_asked(event)]
            spans += [(task.path, at_s, at_s + wait_s) for at_s, wait_s in waits]
    # What belongs to a line is over with it, at the latest.
    spans = [(began, min(ended, ends.get(path[: path.rfind(".") + 1]) or ended)) for path, began, ended in spans]
    busy_s, until = 0.0, join.began_s
    for began, ended in sorted(spans):
        within_s = min(ended, join.at_s) - max(began, until)
        if within_s > 0:
            busy_s, until = busy_s + within_s, min(ended, join.at_s)
    return busy_s


def _is_asked(event):
    return str(event.failure.kind) == "throttled" or event.failure.retry_after_s is not None


def _running(view, body, join):
    """The spans in which a body runs until it ends or is abandoned, but for its waits for nested calls to be let in."""
    part = view.steps.get((body.position, body.path))
    timeout_s = view.rules.timeout_s if part is None or part.timeout_s is None else part.timeout_s
    ended_s = join.at_s if body.ended_s is None else body.ended_s
    if timeout_s is not None:
        ended_s = min(ended_s, body.began_s + timeout_s + body.waited_s + view.rules.grace_s)
    waits = [(call.asked_s, call.began_s or call.over_s or ended_s) for call in view.trace.calls if call.body is body]
    at_s = body.began_s
    for asked_s, admitted_s in sorted(waits):
        yield at_s, min(asked_s, ended_s)
        at_s = admitted_s
    yield at_s, ended_s


def a_fork_hears_how_its_lines_ended(view):
    for join in view.trace.joins:
        heard = sorted(map(str, join.values))
        lines = [line for line in view.trace.lines if line.position == join.position and _is_line_of(line, join)]
        ended = [str(line.value) for line in lines if line.end == "returned"]
        ended += [str(line.failure.kind) for line in lines if line.end == "failed"]
        if heard != sorted(ended):
            yield f"fork {join.path} of position {join.position} heard {heard}, its lines gave {ended}"


def _is_line_of(line, join):
    path = line.path.removeprefix(f"{join.path}.")
    return path != line.path and path.count(".") == 1


def a_program_ends_as_its_job_does(view):
    """The job gives what its program returned and fails with what its program failed with, unless it was ended from outside."""
    for line in view.trace.lines:
        story = view.stories.get(line.position)
        if line.path or story is None:
            continue
        result = story.result
        if line.end is None:
            yield f"the program of {story.job_id} was left open"
        elif line.end == "returned" and (result.error is not None or result.output != line.value):
            yield f"{story.job_id} gives {result.output} and {result.error}, its program returned {line.value}"
        elif line.end == "failed" and result.error != line.failure:
            yield f"{story.job_id} failed with {result.error}, its program failed with {line.failure}"
        elif line.end == "closed" and (result.is_success or str(result.status) == "failed"):
            yield f"{story.job_id} is {result.status}, but its program was closed"


def what_is_shown_is_durable(view):
    if view.scenario.recording is None:
        return
    rows = {row.job_id: row for row in view.trace.rows if row.kind == "result"}
    for _, event in view.of(gm.JobFinished):
        row = rows.get(event.result.job_id)
        if row is None and view.stop is None:
            yield f"{event.result.job_id} was shown and not recorded"
        if row is not None and (row.committed_s is None or row.committed_s > event.at_s + EPS):
            yield f"{event.result.job_id} was shown at {event.at_s:.3f}, before it was durable"


def what_is_unsafe_begins_when_that_is_durable(view):
    intents = defaultdict(list)
    for row in view.trace.rows:
        if row.kind == "intent":
            intents[int(row.job_id[1:]), row.path].append(row)
    for body in view.trace.bodies if view.scenario.recording is not None else ():
        if _is_unsafe(view, body) and not _is_intended(intents[body.position, body.path], body):
            yield f"{body.name} began at {body.began_s:.3f}, and nothing durable said so"


def _is_intended(rows, body):
    return any(
        row.attempt == body.number and row.committed_s is not None and row.committed_s <= body.began_s + EPS
        for row in rows
    )


def what_is_unsafe_is_not_repeated_in_doubt(view):
    """Once an unsafe step may have happened, in this process or an earlier one, it is not begun again."""
    begun = defaultdict(list)
    for trace in (*view.trace.earlier, view.trace):
        for body in trace.bodies:
            if _is_unsafe(view, body):
                begun[body.position, body.path].append(body)
    for bodies in begun.values():
        for body, _ in pairwise(bodies):
            if body.outcome is None or body.outcome.kind not in FREE:
                yield f"{body.name} may have happened at {body.began_s:.3f}, and was begun again"


def _is_unsafe(view, body):
    step = view.steps.get((body.position, body.path))
    return step is not None and step.is_unsafe


OF_THE_DEAD = (
    a_step_ends_once,
    a_replay_tells_what_was_recorded,
    a_replay_tells_it_in_its_order,
    a_fork_ends_with_all_its_lines,
    nothing_of_a_line_begins_after_its_end,
    the_time_of_a_fork_holds,
    a_fork_hears_how_its_lines_ended,
    what_is_shown_is_durable,
    what_is_unsafe_begins_when_that_is_durable,
    what_is_unsafe_is_not_repeated_in_doubt,
)
ALL = (*OF_THE_DEAD, a_program_ends_as_its_job_does)
