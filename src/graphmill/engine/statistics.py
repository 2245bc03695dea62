"""Figures of a run in bounded memory: counts, percentiles, grouped errors, the slowest jobs."""

from __future__ import annotations

import math
import resource
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappush, heappushpop

from graphmill.core.result import Result, Status
from graphmill.core.usage import Usage
from graphmill.engine.error_groups import ErrorGroup, ErrorGroups
from graphmill.engine.machine import Reading

_ACCURACY = 0.01
_LOG_GAMMA = math.log((1 + _ACCURACY) / (1 - _ACCURACY))
_LEAST_S = 1e-6
_SLOWEST = 5


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
    """The figures of a run. ``done`` counts the jobs that have a result; ``total`` is None where it is not known.

    ``degraded`` counts those of the succeeded in which something failed;
    ``throughput`` is jobs per second, cancelled and paused ones left out; ``hook_errors`` how often ``on_result`` and the other hooks
    raised; ``stuck`` how many abandoned functions still run; ``held_s`` for how long nothing new was started, because the
    run was paused or the machine was full. ``memory`` and ``cpu`` are the last readings: shares of what this process may
    use; ``peak_memory_bytes`` is the whole process's. ``usage`` is what was used of each model that was asked, by its name, of failed
    attempts too; of a recorded run since it was begun.
    """

    total: int | None
    done: int
    succeeded: int
    degraded: int
    failed: int
    timed_out: int
    cancelled: int
    paused: int
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

    @property
    def success_rate(self) -> float:
        """The share of succeeded among the jobs that succeeded, failed or timed out; 0 if there are none."""
        judged = self.succeeded + self.failed + self.timed_out
        return self.succeeded / judged if judged else 0.0


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
        """Tell the value that this share of all values does not exceed; 0 if there are none."""
        wanted = max(1, math.ceil(share * self._count))
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return 0.0 if bucket == _LEAST_BUCKET else min(_middle(bucket), self._highest)
        return 0.0

    def percentiles(self) -> Percentiles:
        """Read off the usual ones."""
        return Percentiles(
            p50=self.quantile(0.5), p90=self.quantile(0.9), p99=self.quantile(0.99), highest=self._highest
        )


_LEAST_BUCKET = math.ceil(math.log(_LEAST_S) / _LOG_GAMMA)


def _middle(bucket: int) -> float:
    return 2 * math.exp(bucket * _LOG_GAMMA) / (math.exp(_LOG_GAMMA) + 1)


class Tally:
    """Adds results up as they come."""

    def __init__(self) -> None:
        self.done = 0
        self.retries = 0
        self.degraded = 0
        self.by_status: Counter[Status] = Counter()
        self._queued = Sketch()
        self._duration = Sketch()
        self._slowest: list[tuple[float, int, str]] = []
        self._errors = ErrorGroups()

    def add(self, result: Result) -> None:
        """Count one result."""
        self.done += 1
        self.by_status[result.status] += 1
        if result.is_degraded:
            self.degraded += 1
        if result.attempts > 1:
            self.retries += result.attempts - 1
        if result.attempts:
            self._queued.add(result.queued_s)
            self._duration.add(result.duration_s)
            self._rank(result)
        if result.error is not None and result.is_failure:
            self._errors.add(result.error)

    @property
    def judged(self) -> int:
        """How many have succeeded or failed."""
        return self.done - self.by_status[Status.CANCELLED] - self.by_status[Status.PAUSED]

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
        """Read all figures."""
        return Statistics(
            total=total,
            done=self.done,
            succeeded=self.by_status[Status.SUCCEEDED],
            degraded=self.degraded,
            failed=self.by_status[Status.FAILED],
            timed_out=self.by_status[Status.TIMED_OUT],
            cancelled=self.by_status[Status.CANCELLED],
            paused=self.by_status[Status.PAUSED],
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
        )

    def _rank(self, result: Result) -> None:
        entry = (result.duration_s, -result.position, result.job_id)
        if len(self._slowest) < _SLOWEST:
            heappush(self._slowest, entry)
        elif result.duration_s > self._slowest[0][0]:
            heappushpop(self._slowest, entry)


def peak_memory_bytes() -> int:
    """Tell the most resident memory this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
