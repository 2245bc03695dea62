"""A trace read job by job: its attempts in order, how each ended, and its result."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

import graphmill as gm
from simulation.trace import Body

EPS = 1e-6
FREE = frozenset({"throttled", "unavailable"})


@dataclass(slots=True, kw_only=True)
class Story:
    """One job from its admission to its end. Attempt n is what ran as body n, unless it was ended before it began."""

    position: int
    job_id: str
    starts: list[tuple[int, float]] = field(default_factory=list)  # index among the events, time
    probes: set[int] = field(default_factory=set)  # the attempts that were
    retries: dict[int, gm.RetryScheduled] = field(default_factory=dict)
    bodies: dict[int, Body] = field(default_factory=dict)
    result: gm.Result | None = None
    finished_s: float = 0.0

    def tries(self, until):
        """Count the attempts up to this one that used one up."""
        return sum(not self._is_free(number) for number in range(1, until + 1))

    def _is_free(self, number):
        kind = str(self.retries[number].failure.kind) if number in self.retries else ""
        return kind in FREE or (kind == "timeout" and number in self.probes)


class View:
    """What the invariants ask of a trace."""

    def __init__(self, trace):
        self.trace = trace
        self.scenario = trace.scenario
        self.rules = trace.scenario.rules
        self.stories = self._stories()
        self.by_id = defaultdict(list)
        for story in self.stories.values():
            self.by_id[story.job_id].append(story)

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
        is_gentle = self.stop.reason in (gm.StopReason.DRAINED, gm.StopReason.PARKED)
        latest = self.stop.at_s + (self.rules.drain_s if self.stop.reason is gm.StopReason.PARKED else 0.0)
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

    def limit_at(self, at_s):
        """The highest limit in force at any moment of this instant."""
        before = [limit for since, limit in self.trace.limits if since < at_s - EPS]
        within = [limit for since, limit in self.trace.limits if abs(since - at_s) <= EPS]
        return max([*before[-1:], *within])

    def key_of(self, story):
        return self.scenario.items[story.position].key

    def was_cancelled(self, job_id):
        """Whether somebody cancelled this job with success."""
        return any(
            done.do == "cancel_job" and done.answer is True and f"j{done.value}" == job_id
            for done in self.trace.controls
        )

    def _stories(self):
        stories = {}
        positions = defaultdict(list)
        for event in self.trace.events:
            if type(event) is gm.JobFinished:
                result = event.result
                story = stories.setdefault(result.position, Story(position=result.position, job_id=result.job_id))
                story.result, story.finished_s = result, event.at_s
                positions[result.job_id].append(result.position)
        self._tell(stories, positions)
        for body in self.trace.bodies:
            story = stories.get(body.position)
            if story is not None:
                story.bodies[body.number] = body
        return stories

    def _tell(self, stories, positions):
        """Give each start and retry to its story; an id that comes again belongs to the next job that has it."""
        lives = defaultdict(int)
        for index, event in enumerate(self.trace.events):
            if type(event) is gm.JobFinished:
                lives[event.result.job_id] += 1
            elif type(event) in (gm.AttemptStarted, gm.RetryScheduled):
                owners = positions[event.job_id][lives[event.job_id] :]
                if owners and type(event) is gm.AttemptStarted:
                    stories[owners[0]].starts.append((index, event.at_s))
                    before = self.trace.events[index - 1]
                    if type(before) is gm.HealthChanged and before.state is gm.HealthState.HALF_OPEN:
                        stories[owners[0]].probes.add(event.attempt)
                elif owners:
                    stories[owners[0]].retries[event.attempt] = event


def within(spans, at_s):
    """Whether a moment lies strictly inside one of these spans: at its edges either order is right."""
    return any(since + EPS < at_s < until - EPS for since, until in spans)
