"""A trace read job by job: its attempts in order, how each ended, and its result."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import graphmill as gm
from simulation.trace import Body

EPS = 1e-6
FREE = frozenset({"throttled", "unavailable"})
GENTLE = frozenset({gm.StopReason.REQUEST, gm.StopReason.OUTAGE, gm.StopReason.BUDGET})  # what runs may end


@dataclass(slots=True, kw_only=True)
class Task:
    """What is attempted until it ends: a job that is a function, with an empty path, or a step of a program.

    Attempt n is what ran as body n, unless it was ended before it began; ``before`` attempts, ``counted`` of which use one up, are
    of earlier processes. ``is_ended`` says that somebody was told how it ended: not so a step that nobody wanted any more.
    """

    position: int
    path: str
    name: str
    key: str
    timeout_s: float | None
    most_attempts: int
    is_unsafe: bool = False
    before: int = 0
    counted: int = 0
    starts: dict[int, tuple[int, float]] = field(default_factory=dict)  # by attempt: index among the events, time
    probes: set[int] = field(default_factory=set)  # the attempts that were
    retries: dict[int, gm.RetryScheduled] = field(default_factory=dict)
    bodies: dict[int, Body] = field(default_factory=dict)
    asked_s: float | None = None
    is_ended: bool = False
    ended_s: float = float("inf")
    failure: gm.Failure | None = None
    output: Any = None
    attempts: int = 0

    @property
    def last(self):
        """The number of its last attempt."""
        return self.before + len(self.starts)

    @property
    def status(self):
        """How it ended, in the words of results; None for what was ended from outside."""
        if not self.is_ended:
            return None
        kind = None if self.failure is None else str(self.failure.kind)
        return {None: "succeeded", "timeout": "timed_out", "cancelled": None, "paused": None}.get(kind, "failed")

    def tries(self, until):
        """Count the attempts up to this one that used one up."""
        return self.counted + sum(not self._is_free(number) for number in range(self.before + 1, until + 1))

    def _is_free(self, number):
        kind = str(self.retries[number].failure.kind) if number in self.retries else ""
        return kind in FREE or (kind == "timeout" and number in self.probes)


@dataclass(slots=True, kw_only=True)
class Story:
    """One job from its admission to its end: a function is its own task, a program has one for each step that began."""

    position: int
    job_id: str
    result: gm.Result
    finished_s: float
    began_s: float | None = None
    tasks: dict[str, Task] = field(default_factory=dict)

    @property
    def function(self):
        """Its task, if it is a function."""
        return self.tasks.get("")


class View:
    """What the invariants ask of a trace."""

    def __init__(self, trace):
        self.trace = trace
        self.scenario = trace.scenario
        self.rules = trace.scenario.rules
        self.steps = self.scenario.steps()
        self.strays = []  # starts and retries of jobs that are over, or never were
        self.stories = self._stories()
        self.by_id = defaultdict(list)
        for story in self.stories.values():
            self.by_id[story.job_id].append(story)

    @cached_property
    def budget(self):
        """The budget of this process, in whole dollars."""
        return self.rules.budget_in(self.trace.process)

    @cached_property
    def spent_before(self):
        """What earlier processes have spent; a call that was under way at their end has cost the most it could."""
        return sum(payment.cost for process in self.trace.earlier for payment in process.payments)

    def of(self, kind):
        """All events of a kind, with their places."""
        return self._by_kind[kind]

    @cached_property
    def _by_kind(self):
        found = defaultdict(list)
        for index, event in enumerate(self.trace.events):
            found[type(event)].append((index, event))
        return found

    @cached_property
    def finished(self):
        """The results in the order in which they came to be."""
        return [event.result for event in self.trace.events if type(event) is gm.JobFinished]

    @cached_property
    def stop(self):
        """The event by which the run was stopped, if it was."""
        return next((event for event in self.trace.events if type(event) is gm.RunStopped), None)

    @cached_property
    def stopped_s(self):
        return float("inf") if self.stop is None else self.stop.at_s

    @cached_property
    def last_call_s(self):
        """When what runs was told to end, at the latest: the last drain counts; infinity if nobody stopped the run."""
        if self.stop is None:
            return float("inf")
        is_gentle = self.stop.reason in GENTLE
        latest = self.stop.at_s + (self.rules.drain_s if self.stop.reason in GENTLE - {gm.StopReason.REQUEST} else 0.0)
        for done in self.trace.controls:
            if done.do == "drain" and (
                done.answer is True or (is_gentle and self.stop.at_s <= done.at_s < latest - EPS)
            ):
                latest = done.at_s + (self.rules.drain_s if done.value is None else done.value)
            elif done.do == "cancel_run" and done.answer is True:
                latest = min(latest, done.at_s)
        return latest

    @cached_property
    def pauses(self):
        """The spans of time in which the run was paused."""
        spans, since = [], None
        for done in self.trace.controls:
            if done.do == "pause" and done.answer:
                since = done.at_s
            elif done.do == "unpause" and done.answer:
                spans.append((since, done.at_s))
        return spans if since is None or len(spans) == self._pauses_begun else [*spans, (since, float("inf"))]

    @property
    def _pauses_begun(self):
        return sum(bool(done.do == "pause" and done.answer) for done in self.trace.controls)

    @cached_property
    def full(self):
        """The spans of time in which the machine was too full, by a latch of our own."""
        spans, since, high = [], None, self.rules.memory_mark
        for at_s, share in self.trace.readings if high is not None else ():
            if since is None and share > high:
                since = at_s
            elif since is not None and share < 0.9 * high:
                spans.append((since, at_s))
                since = None
        return spans if since is None else [*spans, (since, float("inf"))]

    def limit_at(self, since_s, until_s=None):
        """The highest limit in force at any moment of this instant, or of this time."""
        until_s = since_s if until_s is None else until_s
        before = [limit for at_s, limit in self.trace.limits if at_s < since_s - EPS]
        within = [limit for at_s, limit in self.trace.limits if since_s - EPS <= at_s <= until_s + EPS]
        return max([*before[-1:], *within])

    @cached_property
    def tasks(self):
        """All tasks of all jobs that have a result."""
        return [task for story in self.stories.values() for task in story.tasks.values()]

    @cached_property
    def own_lanes(self):
        """The keys that steps have named: what goes there is a call, and keeps to what the other side asks for."""
        return {part.key for part in self.steps.values() if part.key}

    @cached_property
    def starts(self):
        """The task of each start, by the place of its event."""
        return {index: task for task in self.tasks for index, _ in task.starts.values()}

    @cached_property
    def slack_s(self):
        """How much later than it should end a job may be shown: an intent that it waits for, and then its result, are recorded first.

        Each waits for the commit that is under way, and for its own.
        """
        recording = self.scenario.recording
        return 0.0 if recording is None else 4 * recording.commit_s + 0.2

    def was_cancelled(self, job_id):
        """Whether somebody cancelled this job with success."""
        return any(
            done.do == "cancel_job" and done.answer is True and f"j{done.value}" == job_id
            for done in self.trace.controls
        )

    def _stories(self):
        stories, positions = {}, defaultdict(list)
        programs = dict(self.trace.programs)
        for event in self.trace.events:
            if type(event) is gm.JobFinished:
                result = event.result
                stories[result.position] = Story(
                    position=result.position,
                    job_id=result.job_id,
                    result=result,
                    finished_s=event.at_s,
                    began_s=programs.get(result.position),
                )
                positions[result.job_id].append(result.position)
        self._tell(stories, positions)
        for body in self.trace.bodies:
            story = stories.get(body.position)
            if story is not None:
                self._task(story, body.path).bodies[body.number] = body
        for call in self.trace.calls:
            if call.is_answered and call.key == call.body.key and call.body.position in stories:
                self._task(stories[call.body.position], call.body.path).probes.discard(
                    call.body.number
                )  # it was the call
        for story in stories.values():
            self._end(story)
        for told in self.trace.told:
            story = stories.get(told.position)
            if story is not None and told.path in story.tasks:
                task = story.tasks[told.path]
                task.is_ended, task.ended_s, task.asked_s = True, told.at_s, told.asked_s
                task.failure, task.attempts = told.failure, told.attempts
                task.output = told.value
        return stories

    def _end(self, story):
        """A function ends as its job does."""
        if self.scenario.items[story.position].plan:
            return
        task, result = self._task(story, ""), story.result
        first_s = min((at_s for _, at_s in task.starts.values()), default=None)
        story.began_s = first_s
        task.is_ended, task.ended_s = True, story.finished_s if first_s is None else first_s + result.duration_s
        task.failure, task.attempts, task.output = result.error, result.attempts, result.output

    def _tell(self, stories, positions):
        """Give each start and retry to its task; an id that comes again belongs to the next job that has it."""
        lives = defaultdict(int)
        for index, event in enumerate(self.trace.events):
            if type(event) is gm.JobFinished:
                lives[event.result.job_id] += 1
            elif type(event) in (gm.AttemptStarted, gm.RetryScheduled):
                owners = positions[event.job_id][lives[event.job_id] :]
                if not owners:
                    self.strays.append(event)
                    continue
                task = self._task(stories[owners[0]], event.path)
                if type(event) is gm.RetryScheduled:
                    task.retries[event.attempt] = event
                    continue
                task.starts[event.attempt] = (index, event.at_s)
                before = self.trace.events[index - 1]
                is_opening = type(before) is gm.HealthChanged and before.state is gm.HealthState.HALF_OPEN
                if is_opening and before.key == task.key:  # else a nested call is the probe
                    task.probes.add(event.attempt)

    def _task(self, story, path):
        if path not in story.tasks:
            story.tasks[path] = self._new_task(story, path)
        return story.tasks[path]

    def _new_task(self, story, path):
        item, rules, part = self.scenario.items[story.position], self.rules, self.steps.get((story.position, path))
        failed = [row for row in self.trace.known if (row.kind, row.job_id, row.path) == ("failed", story.job_id, path)]
        task = Task(
            position=story.position,
            path=path,
            name=f"{story.job_id} {path}".strip(),
            key=item.key,
            timeout_s=rules.timeout_s,
            most_attempts=rules.attempts,
            before=max((row.attempt for row in failed), default=0),
            counted=sum(str(row.outcome.kind) not in (*FREE, "cancelled", "paused") for row in failed),
        )
        if part is not None:
            task.key = part.key or task.key
            task.timeout_s = task.timeout_s if part.timeout_s is None else part.timeout_s
            task.most_attempts = task.most_attempts if part.attempts is None else part.attempts
            task.is_unsafe = part.is_unsafe
        return task


def within(spans, at_s):
    """Whether a moment lies strictly inside one of these spans: at its edges either order is right."""
    return any(since + EPS < at_s < until - EPS for since, until in spans)
