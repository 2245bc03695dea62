"""What a journal holds of a run, as a report reads it: results from their rows, figures recomputed from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

from graphmill.core.result import FAILURES, Result
from graphmill.engine.machine import Reading
from graphmill.engine.statistics import Statistics, Tally
from graphmill.journal.journal import Journal
from graphmill.journal.ports import Archive
from graphmill.journal.records import EVERYTHING, Query, RunRecord, RunState
from graphmill.report.report import Report
from graphmill.report.run_view import first_waiting, samples_of
from graphmill.report.text import ERRORS_SHOWN


class StoredResults:
    """The results of a run; iterate it as often as you like: it reads what is there now, in input order."""

    def __init__(self, journal: Callable[[], AbstractContextManager[Journal]], run_id: str) -> None:
        self._journal = journal
        self._run_id = run_id

    def __iter__(self) -> Iterator[Result]:
        with self._journal() as journal:
            for entry in journal.archive.entries(journal.archive.find(self._run_id), EVERYTHING):
                yield entry.result

    def complete(self, live: Report) -> Report:
        """Make a report of what this process saw the report of the whole run."""
        with self._journal() as journal:
            return self._completed(live, journal.archive, journal.archive.find(self._run_id))

    def _completed(self, live: Report, archive: Archive, run: RunRecord) -> Report:
        seen = live.statistics
        # If all rows are of this process they tell what it has counted already.
        is_all = run.rows == seen.succeeded + seen.failed + seen.timed_out
        statistics = (
            _lengthened(replace(seen, usage=run.usage), run.elapsed_s) if is_all else _statistics(archive, run, seen)
        )
        has_failures = statistics.failed or statistics.timed_out
        failed = archive.entries(run, Query(statuses=FAILURES, limit=ERRORS_SHOWN)) if has_failures else ()
        return replace(
            live,
            statistics=statistics,
            errors=tuple(entry.result for entry in failed),
            orphans=run.orphans,
            is_whole=run.state is RunState.FINISHED,
            kept=self,
            samples=samples_of(run),
            waiting=first_waiting(archive, run) if statistics.paused else (),
        )


def _lengthened(seen: Statistics, elapsed_s: float) -> Statistics:
    """Count the time of earlier processes too, though they have left no row."""
    if elapsed_s <= seen.elapsed_s:
        return seen
    return replace(seen, elapsed_s=elapsed_s, throughput=seen.throughput * seen.elapsed_s / elapsed_s)


def _statistics(archive: Archive, run: RunRecord, live: Statistics) -> Statistics:
    """Add up all rows, and what only the process at work knows."""
    tally = Tally()
    for entry in archive.entries(run, EVERYTHING):
        tally.add(entry.result)
    found = tally.statistics(
        total=live.total if run.total is None else run.total,
        elapsed_s=run.elapsed_s,
        held_s=live.held_s,
        stuck=live.stuck,
        hook_errors=live.hook_errors,
        reading=Reading(memory=live.memory, cpu=live.cpu),
        usage=run.usage,
    )
    # What a stop has left undone has no row, unless it was to be done again; what waits for an answer has one.
    bare = live.done if found.total is None else max(0, found.total - found.done)
    paused, cancelled = min(live.paused, found.paused + bare), min(live.cancelled, found.cancelled + bare)
    return replace(found, paused=max(found.paused, paused), cancelled=max(found.cancelled, cancelled))
