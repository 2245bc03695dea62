"""The report of a batch: its figures, its first errors, its results, and what can be made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from graphmill.core.errors import UsageError
from graphmill.core.result import FAILURES, Result, Status, StopReason
from graphmill.datasets.sink import Sink, sink, write_all
from graphmill.engine.machine import Reading
from graphmill.engine.policy import Policy
from graphmill.engine.statistics import Statistics, Tally
from graphmill.journal.journal import Journal
from graphmill.journal.ports import Archive
from graphmill.journal.records import EVERYTHING, Query, RunRecord, RunState
from graphmill.report.run_view import first_waiting, samples_of
from graphmill.report.text import ERRORS_SHOWN, error_lines, group_lines, seconds, shown, summary_line, waiting_lines
from graphmill.report.usage import usage_lines, usage_record

T = TypeVar("T")
Where = Callable[[Result], bool]

_REASON_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a batch went.

    ``stopped`` says why it ended early: fail_fast, max_failures, cancelled, deadline, drained, parked, stuck; None if it did
    not. ``stopped_because`` says it in words.
    ``errors`` are the first five failures, ``waiting`` the first five items that wait for an answer.
    Results are in input order, whatever order they came in; those of a recorded run, which has a ``run_id``, are read from its
    journal each time; ``done_now`` of them are of this time, the others of before, and ``orphans`` of items that are no longer in
    the source. ``is_whole`` is False for one whose items were not all reached, or wait for an answer.
    ``samples`` is how often each item is done.
    """

    run_id: str | None = None
    done_now: int = 0
    orphans: int = 0
    is_whole: bool = True
    statistics: Statistics
    stopped: StopReason | None
    stopped_because: str
    errors: tuple[Result, ...]
    policy: Policy
    kept: Iterable[Result] | None
    waiting: tuple[Result, ...] = ()
    samples: int = 1

    @property
    def is_failure(self) -> bool:
        """Whether more failed than was tolerated (none, unless max_failures said so), or all did, or it stopped early."""
        failed = self.statistics.failed + self.statistics.timed_out
        judged = failed + self.statistics.succeeded
        return (
            self.stopped is not None
            or not self.is_whole
            or bool(failed and (failed == judged or not self.policy.tolerates(failed, judged)))
        )

    def __repr__(self) -> str:
        return f"<Report: {self.summary()}>"

    def summary(self) -> str:
        """Say in one line how many items succeeded."""
        return summary_line(self.statistics, samples=self.samples)

    def closing_line(self) -> str:
        """Say how it ended: the summary, why it stopped if it did, and how long it took."""
        reason = (
            f" ({shown(self.stopped_because, _REASON_CHARS)})"
            if self.stopped in (StopReason.PARKED, StopReason.DRAINED)
            else ""
        )
        stopped = f" · stopped: {self.stopped}{reason}" if self.stopped else ""
        before = max(0, self.statistics.succeeded + self.statistics.failed + self.statistics.timed_out - self.done_now)
        now = (
            f" · {self.done_now:,} done now, {before:,} before"
            if self.run_id is not None and before and self.done_now
            else ""
        )
        gone = f" · {self.orphans:,} no longer in the source" if self.orphans else ""
        return f"{self.summary()}{stopped}{now}{gone} · {seconds(self.statistics.elapsed_s)}"

    def usage_lines(self) -> list[str]:
        """Say what was used of models, if any were asked: requests, answers that were known, and tokens; of each, if they are several."""
        return usage_lines(self.statistics.usage)

    def error_lines(self) -> list[str]:
        """Show up to five failures, one line each; of more, those that are alike together, and how many others there are."""
        failed, groups = self.statistics.failed + self.statistics.timed_out, self.statistics.errors
        if failed <= ERRORS_SHOWN or len(groups) >= failed:
            return error_lines(self.errors, failed)
        told = groups[:ERRORS_SHOWN]
        others = failed - sum(group.count for group in told)
        return [*group_lines(told), *([f"  ...and {others:,} more"] if others else [])]

    def waiting_lines(self) -> list[str]:
        """Show what the first five items that wait for an answer ask."""
        return waiting_lines(self.waiting, self.statistics.paused)

    def results(self, *, status: str | None = None, where: Where | None = None) -> Iterator[Result]:
        """Go through the results, all or those of one status, all or those for which ``where`` holds."""
        if self.kept is None:
            raise UsageError(
                "this batch kept no results in memory; read them where its sinks wrote them, or leave keep_results on"
            )
        wanted = None if status is None else _status(status)
        return (
            result
            for result in self.kept
            if (wanted is None or result.status is wanted) and (where is None or where(result))
        )

    def failures(self) -> Iterator[Result]:
        """Go through the results that failed or timed out."""
        return self.results(where=lambda result: result.is_failure)

    def collect(self, *, where: Where | None = None) -> list[Any]:
        """List the outputs of the items that succeeded."""
        return [result.output for result in self.results(status=Status.SUCCEEDED, where=where)]

    def merge(
        self, *, key: str | None = None, conflict: Conflict = "error", where: Where | None = None
    ) -> dict[Any, Any]:
        """Merge the outputs, which must be mappings, into one: of all their fields, or of whole outputs by their field ``key``.

        Where two outputs give different values for one entry, ``conflict`` decides: "error", "first", "last" (in input
        order), or a function of the two values.
        """
        return merge_outputs(self.results(status=Status.SUCCEEDED, where=where), key=key, conflict=conflict)

    def reduce(self, function: Callable[[T, Any], T], initial: T, *, where: Where | None = None) -> T:
        """Fold the outputs of the items that succeeded, in input order."""
        value = initial
        for result in self.results(status=Status.SUCCEEDED, where=where):
            value = function(value, result.output)
        return value

    def stream(self, target: Sink, *, status: str | None = None, where: Where | None = None) -> None:
        """Write the results to a sink, all or nothing."""
        write_all(self.results(status=status, where=where), target, complete=self.stopped is None and self.is_whole)

    def export(self, path: str | Path, *, status: str | None = None, where: Where | None = None) -> Path:
        """Write the results to a file, .jsonl, .json or .csv: after this it is whole, after an error it is not there.

        Those of a run that ended early go to ``name.partial.ext``, and replace no others. Give the path.
        """
        target = sink(path)
        self.stream(target, status=status, where=where)
        return getattr(target, "written", None) or Path(path)


def _status(name: str) -> Status:
    try:
        return Status(name)
    except ValueError:
        final = ", ".join(status for status in Status if status.is_final)
        raise UsageError(f"no status {name!r}; results have {final}") from None


Rule = Literal["error", "first", "last"]
Conflict = Rule | Callable[[Any, Any], Any]


def merge_outputs(results: Iterable[Result], *, key: str | None, conflict: Conflict) -> dict[Any, Any]:
    """Merge mappings entry by entry; equal values are no conflict."""
    if conflict not in get_args(Rule) and not callable(conflict):
        raise UsageError(f"conflict is error, first, last or a function of two values, not {conflict!r:.80}")
    merged: dict[Any, Any] = {}
    origin: dict[Any, str] = {}
    for result in results:
        for name, value in _entries(result, key):
            if name in merged and not _is_equal(merged[name], value):
                value = _decide(conflict, name, merged[name], value, (origin[name], result.job_id))  # noqa: PLW2901
            merged[name] = value
            origin.setdefault(name, result.job_id)
    return merged


def _entries(result: Result, key: str | None) -> Iterator[tuple[Any, Any]]:
    output = result.output
    if not isinstance(output, Mapping):
        raise UsageError(
            f"merge wants outputs that are mappings; that of {result.job_id!r:.80} is {type(output).__name__}"
        )
    if key is None:
        yield from output.items()
        return
    if key not in output:
        raise UsageError(
            f"the output of {result.job_id!r:.80} has no {key!r} to merge by; it has {', '.join(map(repr, output))}"
        )
    try:
        hash(output[key])
    except TypeError:
        raise UsageError(
            f"the {key!r} of {result.job_id!r:.80} is a {type(output[key]).__name__}, which can not be merged by"
        ) from None
    yield output[key], output


def _is_equal(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))


def _decide(conflict: Conflict, name: Any, one: Any, other: Any, jobs: tuple[str, str]) -> Any:
    if callable(conflict):
        return conflict(one, other)
    if conflict == "error":
        raise UsageError(
            f"{jobs[0]!r:.80} and {jobs[1]!r:.80} give different values for {name!r:.80}; "
            "say which counts: conflict='first', 'last', or a function"
        )
    return one if conflict == "first" else other


def report_record(report: Report, error: Exception | None = None) -> dict[str, Any]:
    """Give the summary, why it stopped, what went wrong beside the items, and all figures."""
    statistics = report.statistics
    return {
        "run": report.run_id,
        "summary": report.summary(),
        "done_now": report.done_now,
        "orphans": report.orphans,
        "stopped": report.stopped,
        "stopped_because": report.stopped_because,
        "error": None if error is None else {"type": type(error).__name__, "message": str(error)},
        "waiting": [{"id": result.job_id, "questions": dict(result.questions)} for result in report.waiting],
        "usage": usage_record(statistics.usage),
        "statistics": {
            field.name: getattr(statistics, field.name) for field in fields(statistics) if field.name != "usage"
        },
    }


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
