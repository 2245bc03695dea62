"""Figures of a run in bounded memory: progress, counts, percentiles, error groups, the slowest jobs."""

from __future__ import annotations

import math
import re
import resource
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, NamedTuple

from graphmill.core.result import FAILURES, SUCCEEDED, Failure, Result, Status
from graphmill.core.usage import Usage
from graphmill.engine.monitor.machine import Reading
from graphmill.engine.scheduling.health import NOTHING_ANSWERED, UNAVAILABLE, HealthState

if TYPE_CHECKING:
    from graphmill.engine.results.recorder import Recorder
    from graphmill.engine.scheduling.budget import Budget
    from graphmill.engine.scheduling.lanes import Lane, LaneWait
    from graphmill.engine.scheduling.scheduler import Scheduler

_RATE_OVER_S = 30.0
_MOST_GROUPS = 100
_NUMBERS = re.compile(r"\d+")
_OTHERS = "(other messages)"
MOST_DISTINCT = 1000
_ACCURACY = 0.01
_LOG_GAMMA = math.log((1 + _ACCURACY) / (1 - _ACCURACY))
_LEAST_S = 1e-6
_SLOWEST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneProgress:
    """The state of one key: its limit and why it changed, the share of throttled recent calls, its health.

    ``health`` is closed, open, half_open or given_up, ``trouble`` why it is not closed. ``waits_for`` is what calls
    wait for though there is a slot, such as a limit; empty if none do. ``next_s`` is how long the next of them still
    waits, if known. ``refusals`` describes throttled calls without such a wait, if they are many.
    """

    key: str
    running: int
    queued: int
    limit: int
    reason: str
    throttled_share: float
    health: HealthState
    trouble: str
    waits_for: str = ""
    next_s: float | None = None
    refusals: str = ""

    @property
    def waits(self) -> str:
        """What its calls wait for, or that they are refused, in a few words; empty if neither."""
        if self.trouble:
            named = "" if self.trouble.startswith(self.key) else f"{self.key}: "
            return f"{UNAVAILABLE}{named}{self.trouble}"
        if self.waits_for:
            return f"{self.key}: waits for {self.waits_for}"
        return self.refusals


def lane_to_report(lanes: Iterable[LaneProgress]) -> LaneProgress | None:
    """Return the lane to report where there is room for one: the first in trouble, else the first that waits."""
    return min((lane for lane in lanes if lane.waits), key=lambda lane: not lane.trouble, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesProgress:
    """How far a batch inside a job is; ``total`` is None while it is unknown."""

    path: str
    done: int
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A reading of a live run.

    ``done`` counts all jobs that have a result, ``rate`` those that recently succeeded or failed per second; ``total``
    and ``eta_s`` are None if unknown. ``concurrency`` is the most attempts that may run at once now. ``held`` is why
    nothing new starts, if so: the run is paused, or the machine is full (then one attempt at a time still runs). In a
    run of one job ``series`` is the batch inside it that is running, if any. ``usage`` is by model. ``budget_nano`` is
    the run's budget, and ``waiting_for_budget`` how many of the running attempts wait for room in it.
    """

    total: int | None
    done: int
    succeeded: int
    failed: int
    timed_out: int
    cancelled: int
    waiting: int
    pending: int
    running: int
    queued: int
    retrying: int
    concurrency: int
    held: str | None
    lanes: tuple[LaneProgress, ...]
    rate: float
    eta_s: float | None
    elapsed_s: float
    series: SeriesProgress | None = None
    usage: Mapping[str, Usage] = field(default_factory=dict)
    budget_nano: int | None = None
    waiting_for_budget: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroup:
    """Failures of one kind and exception type whose messages differ at most in their numbers.

    ``message`` is the first one's, and ``distinct`` how many different ones there are; beyond a thousand they are not
    counted.
    """

    kind: str
    type: str = ""
    message: str
    count: int
    distinct: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Seconds, each within 1 % of the exact value."""

    p50: float
    p90: float
    p99: float
    highest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowJob:
    """One of the jobs that took longest."""

    job_id: str
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The figures of a run. ``done`` counts the jobs that have a result; ``total`` is None if unknown.

    ``degraded`` counts succeeded jobs in which something failed, ``partial`` those that achieved less than all.
    ``throughput`` is jobs per second without those that were cancelled, wait or are pending. ``hook_errors`` is how
    often hooks raised, ``stuck`` how many abandoned functions still run, ``held_s`` how long nothing new was started
    because the run was paused or the machine full. ``memory`` and ``cpu`` are the last readings: shares of what this
    process may use; ``peak_memory_bytes`` is the whole process's. ``usage`` is by model, failed attempts and earlier
    processes of a recorded run included.
    """

    total: int | None
    done: int
    succeeded: int
    degraded: int
    failed: int
    timed_out: int
    cancelled: int
    waiting: int
    pending: int
    retries: int
    elapsed_s: float
    throughput: float
    queued_s: Percentiles
    duration_s: Percentiles
    errors: tuple[ErrorGroup, ...]
    slowest: tuple[SlowJob, ...]
    stuck: int
    hook_errors: int
    held_s: float
    memory: float
    cpu: float
    peak_memory_bytes: int
    usage: Mapping[str, Usage]
    partial: int = 0

    @property
    def success_rate(self) -> float:
        """The share of succeeded among the jobs that succeeded, failed or timed out; 0 if there are none."""
        judged = self.succeeded + self.failed + self.timed_out
        return self.succeeded / judged if judged else 0.0


class RunStatistics:
    """Counts results and reads them out, with the scheduler's numbers; every reading brings its time.

    What earlier processes finished of the same run counts as done, as it is found, and is not part of any rate.
    """

    def __init__(self, scheduler: Scheduler, recorder: Recorder, budget: Budget | None, *, now: float) -> None:
        self._scheduler = scheduler
        self._recorder = recorder
        self._budget = budget
        self.tally = Tally()
        self._meter = RateMeter(now)
        self._started_at = now
        self._ended_at: float | None = None
        self._reading = Reading(memory=0.0, cpu=0.0)
        self._held_s = 0.0
        self._held_since: float | None = None
        self._total = recorder.total

    def mark(self, now: float, reading: Reading) -> None:
        """Note how much is done, for the rate, and how full the machine is."""
        self._reading = reading
        self._meter.read(now, self.tally.judged)

    def note_hold(self, now: float) -> None:
        """Note whether starts are held, when that may have changed."""
        self._held_s = self._held_until(now)
        self._held_since = None if self._scheduler.holds.reason is None else now

    def end_source(self, count: int) -> None:
        """Set the total: these, and what was done before."""
        self._total = count + sum(self._recorder.done.values())

    def elapsed_s(self, now: float) -> float:
        """Return how long the run has taken."""
        return self._until(now) - self._started_at

    def end(self, now: float) -> None:
        """Stop the clock, the first time this is called."""
        if self._ended_at is None:
            self._ended_at = now

    def progress(self, now: float) -> Progress:
        """Return the run's progress."""
        scheduler, done = self._scheduler, sum(self._recorder.done.values()) + self.tally.done
        rate = self._meter.rate(self._until(now), self.tally.judged)
        lanes, most_running = tuple(self._lanes(now)), scheduler.most_running
        is_progressing = scheduler.is_progressing and not any(lane.waits.startswith(NOTHING_ANSWERED) for lane in lanes)
        eta_s = None
        if self._total is not None and rate and is_progressing:
            eta_s = max(0, self._total - done) / rate
        return Progress(
            total=self._total,
            done=done,
            succeeded=self._count(Status.SUCCEEDED),
            failed=self._count(Status.FAILED),
            timed_out=self._count(Status.TIMED_OUT),
            cancelled=self._count(Status.CANCELLED),
            waiting=self._count(Status.WAITING),
            pending=self._count(Status.PENDING),
            running=scheduler.running,
            queued=scheduler.queued,
            retrying=scheduler.retrying,
            concurrency=min(most_running, sum(lane.limit for lane in scheduler.lanes) or most_running),
            held=scheduler.holds.reason,
            lanes=lanes,
            rate=rate,
            eta_s=eta_s,
            elapsed_s=self.elapsed_s(now),
            series=self._series(),
            usage=self._recorder.usage,
            budget_nano=None if self._budget is None else self._budget.cap_nano,
            waiting_for_budget=0 if self._budget is None else self._budget.waiting,
        )

    def _lanes(self, now: float) -> Iterator[LaneProgress]:
        scheduler = self._scheduler
        has_slot, has_retries = (
            scheduler.holds.reason is None and scheduler.running < scheduler.most_running,
            scheduler.retrying > 0,
        )
        for lane in scheduler.lanes:
            yield _reading(lane, lane.wait(now, has_slot=has_slot, has_retries=has_retries), lane.refusals(now))

    def waiting_lane(self, now: float) -> LaneProgress | None:
        """Return the lane whose wait to report, if calls wait for the other side."""
        return lane_to_report(self._lanes(now))

    def _series(self) -> SeriesProgress | None:
        """Return the progress of the batch inside the only job, unless it is over."""
        if self._total != 1:
            return None
        for job in self._scheduler.begun():
            if (series := job.record.series) is not None and series.done != series.count:
                return SeriesProgress(path=series.path, done=series.done, total=series.count)
        return None

    def statistics(self, now: float, *, stuck: int, hook_errors: int) -> Statistics:
        """Return all figures."""
        return self.tally.statistics(
            total=self._total,
            elapsed_s=self.elapsed_s(now),
            held_s=self._held_until(self._until(now)),
            stuck=stuck,
            hook_errors=hook_errors,
            reading=self._reading,
            usage=self._recorder.usage,
        )

    def _count(self, status: Status) -> int:
        return self._recorder.done.get(status, 0) + self.tally.by_status[status]

    def _held_until(self, now: float) -> float:
        if self._held_since is None:
            return self._held_s
        return self._held_s + now - self._held_since

    def _until(self, now: float) -> float:
        return now if self._ended_at is None else self._ended_at


def _reading(lane: Lane, wait: LaneWait | None, refusals: str) -> LaneProgress:
    waits_for, next_s = wait or ("", None)
    return LaneProgress(
        key=lane.key,
        running=lane.running,
        queued=len(lane.queue),
        limit=lane.limit,
        reason=lane.reason,
        throttled_share=lane.throttled.value,
        health=lane.health.state,
        trouble=lane.health.reason,
        waits_for=waits_for,
        next_s=next_s,
        refusals=refusals,
    )


class Tally:
    """Adds results up as they come."""

    def __init__(self) -> None:
        self.done = 0
        self.retries = 0
        self.degraded = 0
        self.partial = 0
        self.by_status: Counter[Status] = Counter()
        self.failures = Share()
        self._queued = Sketch()
        self._duration = Sketch()
        self._slowest: list[tuple[float, int, str]] = []
        self._errors = ErrorGroups()

    def add(self, result: Result) -> None:
        """Count one result."""
        status = result.status
        self.done += 1
        self.by_status[status] += 1
        is_failure = status in FAILURES
        if is_failure or status is SUCCEEDED:
            self.failures.add(hit=is_failure)
        if result.metadata:
            self.degraded += result.is_degraded
            self.partial += result.is_partial
        if result.attempts > 1:
            self.retries += result.attempts - 1
        if result.attempts:
            self._queued.add(result.queued_s)
            self._duration.add(result.duration_s)
            self._rank(result)
        if is_failure and result.error is not None:
            self._errors.add(result.error)

    @property
    def judged(self) -> int:
        """How many have succeeded or failed."""
        counts = self.by_status
        return self.done - counts[Status.CANCELLED] - counts[Status.WAITING] - counts[Status.PENDING]

    def statistics(
        self,
        *,
        total: int | None,
        elapsed_s: float,
        held_s: float,
        stuck: int,
        hook_errors: int,
        reading: Reading,
        usage: Mapping[str, Usage],
    ) -> Statistics:
        """Return all figures."""
        return Statistics(
            total=total,
            done=self.done,
            succeeded=self.by_status[Status.SUCCEEDED],
            degraded=self.degraded,
            failed=self.by_status[Status.FAILED],
            timed_out=self.by_status[Status.TIMED_OUT],
            cancelled=self.by_status[Status.CANCELLED],
            waiting=self.by_status[Status.WAITING],
            pending=self.by_status[Status.PENDING],
            retries=self.retries,
            elapsed_s=elapsed_s,
            throughput=self.judged / elapsed_s if elapsed_s > 0 else 0.0,
            queued_s=self._queued.percentiles(),
            duration_s=self._duration.percentiles(),
            errors=self._errors.largest_first(),
            slowest=tuple(
                SlowJob(job_id=name, duration_s=seconds) for seconds, _, name in sorted(self._slowest, reverse=True)
            ),
            stuck=stuck,
            hook_errors=hook_errors,
            held_s=held_s,
            memory=reading.memory,
            cpu=reading.cpu,
            peak_memory_bytes=peak_memory_bytes(),
            usage=usage,
            partial=self.partial,
        )

    def _rank(self, result: Result) -> None:
        entry = (result.duration_s, -result.position, result.job_id)
        if len(self._slowest) < _SLOWEST:
            heappush(self._slowest, entry)
        elif result.duration_s > self._slowest[0][0]:
            heappushpop(self._slowest, entry)


def peak_memory_bytes() -> int:
    """Return the peak resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":
        return peak
    return peak * 1024


class _GroupKey(NamedTuple):
    """What the failures of a group have in common; of the message all but its numbers."""

    kind: str
    type: str
    pattern: str


class ErrorGroups:
    """Sorts failures into groups as they come; beyond a hundred groups, those of one kind are one."""

    def __init__(self) -> None:
        self._first: dict[_GroupKey, str] = {}
        self._counts: Counter[_GroupKey] = Counter()
        self._hashes: dict[_GroupKey, set[int]] = {}

    def add(self, failure: Failure) -> None:
        """Count one failure."""
        key = _GroupKey(str(failure.kind), failure.type, _NUMBERS.sub("#", failure.message[:400])[:200])
        message = failure.message
        if key not in self._first and len(self._first) >= _MOST_GROUPS:
            key, message = _GroupKey(str(failure.kind), "", _OTHERS), _OTHERS
        self._first.setdefault(key, message)
        self._counts[key] += 1
        hashes = self._hashes.setdefault(key, set())
        if len(hashes) < MOST_DISTINCT:
            hashes.add(hash(failure.message))

    def largest_first(self) -> tuple[ErrorGroup, ...]:
        """List the groups."""
        groups = [
            ErrorGroup(
                kind=key.kind,
                type=key.type,
                message=message,
                count=self._counts[key],
                distinct=len(self._hashes[key]),
            )
            for key, message in self._first.items()
        ]
        return tuple(sorted(groups, key=lambda group: -group.count))


class RateMeter:
    """The rate of the last half minute, from readings taken now and then."""

    def __init__(self, now: float) -> None:
        self._readings = deque([(now, 0)])

    def read(self, now: float, done: int) -> None:
        """Note how much is done."""
        self._readings.append((now, done))
        while len(self._readings) > 1 and self._readings[1][0] <= now - _RATE_OVER_S:
            self._readings.popleft()

    def rate(self, now: float, done: int) -> float:
        """Return the jobs done per second."""
        since, done_then = self._readings[0]
        if now > since:
            return (done - done_then) / (now - since)
        return 0.0


class Sketch:
    """A histogram with logarithmic buckets: any percentile within 1 %, in at most a few thousand counters."""

    __slots__ = ("_buckets", "_count", "_highest")

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self._count = 0
        self._highest = 0.0

    def add(self, seconds: float) -> None:
        """Count one value; below a microsecond all are one."""
        bucket = math.ceil(math.log(seconds) / _LOG_GAMMA) if seconds > _LEAST_S else _LEAST_BUCKET
        self._buckets[bucket] += 1
        self._count += 1
        self._highest = max(self._highest, seconds)

    def quantile(self, share: float) -> float:
        """Return the value that this share of all values does not exceed; 0 if there are none."""
        wanted = max(1, math.ceil(share * self._count))
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                if bucket == _LEAST_BUCKET:
                    return 0.0
                return min(_middle(bucket), self._highest)
        return 0.0

    def percentiles(self) -> Percentiles:
        """Return the usual percentiles."""
        return Percentiles(
            p50=self.quantile(0.5), p90=self.quantile(0.9), p99=self.quantile(0.99), highest=self._highest
        )


_LEAST_BUCKET = math.ceil(math.log(_LEAST_S) / _LOG_GAMMA)


def _middle(bucket: int) -> float:
    return 2 * math.exp(bucket * _LOG_GAMMA) / (math.exp(_LOG_GAMMA) + 1)


class Share:
    """The share of hits among about the last ``over`` events: a plain mean at first, then fading.

    ``count`` is how many events ``value`` is based on, at most ``over``.
    """

    __slots__ = ("_over", "count", "value")

    def __init__(self, over: int = 100) -> None:
        self._over = over
        self.count = 0
        self.value = 0.0

    def add(self, *, hit: bool) -> None:
        """Count one event."""
        if self.count < self._over:
            self.count += 1
        self.value += (hit - self.value) / self.count
