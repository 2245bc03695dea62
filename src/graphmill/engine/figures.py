"""The figures of one run: what has been counted, and how it reads now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphmill.core.result import Result, Status
from graphmill.engine.lane import Lane, Wait
from graphmill.engine.machine import Reading
from graphmill.engine.progress import NOTHING_ANSWERED, LaneProgress, Progress, RateMeter, SeriesProgress, told_lane
from graphmill.engine.recorder import Recorder
from graphmill.engine.scheduler import Scheduler
from graphmill.engine.spending import Spending
from graphmill.engine.statistics import Statistics, Tally


class Figures:
    """Counts results and reads them out, with the scheduler's numbers beside them; every reading brings its time.

    What earlier processes have done of the same run is shown as done, as it is found, and is no part of any rate. ``spending`` is what
    all of them have used.
    """

    def __init__(
        self, scheduler: Scheduler, recorder: Recorder | None, spending: Spending, *, total: int | None, now: float
    ) -> None:
        self._scheduler = scheduler
        self._spending = spending
        self._tally = Tally()
        self._before: Mapping[Status, int] = {} if recorder is None else recorder.done
        self._meter = RateMeter(now)
        self._started_at = now
        self._ended_at: float | None = None
        self._reading = Reading(memory=0.0, cpu=0.0)
        self._held_s = 0.0
        self._held_since: float | None = None
        self._total = total

    def add(self, result: Result) -> None:
        """Count a result."""
        self._tally.add(result)

    def mark(self, now: float, reading: Reading) -> None:
        """Note how much is done, for the rate, and how full the machine is; to be called now and then."""
        self._reading = reading
        self._meter.read(now, self._tally.judged)

    def note_hold(self, now: float) -> None:
        """Note, when that may have changed, whether the starts are held."""
        self._held_s = self._held_until(now)
        self._held_since = None if self._scheduler.held is None else now

    def end_source(self, count: int) -> None:
        """Know how many there are: these, and what was done before."""
        self._total = count + sum(self._before.values())

    def elapsed_s(self, now: float) -> float:
        """Tell how long the run has taken."""
        return self._until(now) - self._started_at

    def end(self, now: float) -> None:
        """Stop the clock, the first time this is called."""
        if self._ended_at is None:
            self._ended_at = now

    def progress(self, now: float) -> Progress:
        """Read how far the run is."""
        scheduler, done = self._scheduler, sum(self._before.values()) + self._tally.done
        rate = self._meter.rate(self._until(now), self._tally.judged)
        left = None if self._total is None else max(0, self._total - done)
        lanes = tuple(self._lanes(now))
        is_going_on = scheduler.is_going_on and not any(lane.waits.startswith(NOTHING_ANSWERED) for lane in lanes)
        return Progress(
            total=self._total,
            done=done,
            succeeded=self._count(Status.SUCCEEDED),
            failed=self._count(Status.FAILED),
            timed_out=self._count(Status.TIMED_OUT),
            cancelled=self._count(Status.CANCELLED),
            paused=self._count(Status.PAUSED),
            running=scheduler.running,
            queued=scheduler.queued,
            retrying=scheduler.retrying,
            concurrency=min(scheduler.limit, sum(lane.limit for lane in scheduler.lanes) or scheduler.limit),
            held=scheduler.held,
            lanes=lanes,
            rate=rate,
            eta_s=None if left is None or not rate or not is_going_on else left / rate,
            elapsed_s=self.elapsed_s(now),
            series=self._series() if self._total == 1 else None,
            usage=self._spending.usage,
        )

    def _lanes(self, now: float) -> Iterator[LaneProgress]:
        scheduler = self._scheduler
        has_slot, has_retries = scheduler.held is None and scheduler.running < scheduler.limit, scheduler.retrying > 0
        for lane in scheduler.lanes:
            yield _reading(lane, lane.wait(now, has_slot=has_slot, has_retries=has_retries), lane.refusals(now))

    def waits(self, now: float) -> LaneProgress | None:
        """Read the lane whose wait is to be told, if calls wait for the other side."""
        return told_lane(self._lanes(now))

    def _series(self) -> SeriesProgress | None:
        """Read the batch inside of the only job, unless it is over."""
        for ticket in self._scheduler.under_way():
            if (series := ticket.series) is not None and series.done != series.count:
                return SeriesProgress(path=series.path, done=series.done, total=series.count)
        return None

    def statistics(self, now: float, *, stuck: int, hook_errors: int) -> Statistics:
        """Read all figures."""
        return self._tally.statistics(
            total=self._total,
            elapsed_s=self.elapsed_s(now),
            held_s=self._held_until(self._until(now)),
            stuck=stuck,
            hook_errors=hook_errors,
            reading=self._reading,
            usage=self._spending.usage,
        )

    def _count(self, status: Status) -> int:
        return self._before.get(status, 0) + self._tally.by_status[status]

    def _held_until(self, now: float) -> float:
        return self._held_s if self._held_since is None else self._held_s + now - self._held_since

    def _until(self, now: float) -> float:
        return now if self._ended_at is None else self._ended_at


def _reading(lane: Lane, wait: Wait | None, refusals: str) -> LaneProgress:
    return LaneProgress(
        key=lane.key,
        running=lane.running,
        queued=len(lane.queue),
        limit=lane.limit,
        reason=lane.reason,
        throttled_share=lane.throttled.value,
        health=lane.health.state,
        trouble=lane.health.reason,
        waits_for="" if wait is None else wait.what,
        next_s=None if wait is None else wait.next_s,
        refusals=refusals,
    )
