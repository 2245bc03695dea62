"""The report of a batch: its figures, its first errors, its results, and how to merge or export them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from graphmill.core.errors import UsageError
from graphmill.core.result import FAILURES, Result, Status, StopReason
from graphmill.datasets.frames import arrow_table, pandas_frame
from graphmill.datasets.sink import Sink, sink, write_all
from graphmill.engine.monitor.machine import Reading
from graphmill.engine.policy import Policy
from graphmill.engine.results.statistics import Statistics, Tally
from graphmill.journal.journal import Journal
from graphmill.journal.records import EVERYTHING, Query, RunRecord, RunState
from graphmill.journal.store import Archive
from graphmill.report.run_view import first_waiting
from graphmill.report.scores import headlines, score_lines, scored_entries
from graphmill.report.text import (
    ERRORS_SHOWN,
    REHEARSAL,
    duration_text,
    error_lines,
    group_lines,
    more_lines,
    one_line,
    summary_line,
    waiting_lines,
)
from graphmill.report.usage import usage_lines, usage_record
from graphmill.scoring.figures import ScoreFigures

T = TypeVar("T")
Where = Callable[[Result], bool]
ConflictRule = Literal["error", "first", "last"]
Conflict = ConflictRule | Callable[[Any, Any], Any]

_REASON_CHARS = 200
_RESUMABLE = (StopReason.OUTAGE, StopReason.REQUEST, StopReason.BUDGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a batch went.

    ``stopped`` says why it ended early: fail_fast, max_failures, cancelled, deadline, request, outage or stuck; None if
    it did not. ``stopped_because`` is the reason in words. ``errors`` are the first five failures, ``waiting`` the
    first five items that wait for an answer. ``is_complete`` is False while items are pending or wait for an answer.

    Results are in input order. Those of a recorded run, which has a ``run_id``, are read from its journal each time;
    ``done_now`` counts the results of this process, ``orphans`` those whose items are no longer in the source,
    ``outdated`` those from before a change, which are not in the statistics and will be redone.
    ``samples`` is how often each item was run. ``scores`` are the figures of a scored run, and ``passes`` the reports
    of the scoring passes of this process. ``is_rehearsal`` says that a script answered in place of models. ``notes``
    names models without a price, bad rows that were skipped, and rules of a rehearsal that never matched.
    """

    run_id: str | None = None
    done_now: int = 0
    orphans: int = 0
    outdated: int = 0
    is_complete: bool = True
    statistics: Statistics
    stopped: StopReason | None
    stopped_because: str
    errors: tuple[Result, ...]
    policy: Policy
    stored: Iterable[Result] | None
    waiting: tuple[Result, ...] = ()
    samples: int = 1
    scores: tuple[ScoreFigures, ...] = ()
    passes: tuple[Report, ...] = ()
    is_rehearsal: bool = False
    notes: tuple[str, ...] = ()

    @property
    def is_failure(self) -> bool:
        """Whether it ended early, is not complete, everything failed, or more failed than ``max_failures`` allows."""
        if self.stopped is not None or not self.is_complete:
            return True
        failed = self._failed
        judged = failed + self.statistics.succeeded
        return failed > 0 and (failed == judged or not self.policy.tolerates(failed, judged))

    @property
    def _failed(self) -> int:
        return self.statistics.failed + self.statistics.timed_out

    def __repr__(self) -> str:
        return f"<Report: {self.summary()}>"

    def summary(self) -> str:
        """Say in one line how many items succeeded."""
        line = summary_line(self.statistics, samples=self.samples, outdated=self.outdated)
        return f"{line} ({REHEARSAL})" if self.is_rehearsal else line

    def closing_line(self) -> str:
        """Say how it ended: the summary, why it stopped if it did, and how long it took."""
        parts = [self.summary()]
        if self.stopped is not None:
            if self.stopped in _RESUMABLE:
                parts.append(f"paused: {one_line(self.stopped_because, _REASON_CHARS)}")
            else:
                parts.append(f"stopped: {self.stopped}")
        before = self.statistics.succeeded + self._failed - self.done_now
        if self.run_id is not None and self.done_now and before > 0:
            parts.append(f"{self.done_now:,} done now, {before:,} before")
        if self.orphans:
            parts.append(f"{self.orphans:,} no longer in the source")
        parts += headlines(self.scores)
        return " · ".join([*parts, duration_text(self.statistics.elapsed_s)])

    def usage_lines(self) -> list[str]:
        """Say how many requests and tokens were used and what they cost; nothing if no model was called."""
        return usage_lines(self.statistics.usage, self.policy.budget_usd)

    def error_lines(self) -> list[str]:
        """Show up to five failures, one line each; if there are more, similar ones are grouped."""
        groups = self.statistics.errors
        if self._failed <= ERRORS_SHOWN or len(groups) >= self._failed:
            return error_lines(self.errors, self._failed)
        first = groups[:ERRORS_SHOWN]
        return [*group_lines(first), *more_lines(self._failed - sum(group.count for group in first))]

    def score_lines(self) -> list[str]:
        """Show the figures of each scorer, what was wrong with the other answers, and where a scorer failed."""
        lines = score_lines(self.scores)
        for scoring in self.passes:
            if scoring.stopped is not None or scoring.errors:
                lines += [f"run {scoring.run_id}: {scoring.closing_line()}", *scoring.error_lines()]
        return lines

    def waiting_lines(self) -> list[str]:
        """Show the questions of the first five items that wait for an answer."""
        return waiting_lines(self.waiting, self.statistics.waiting)

    def results(self, *, status: str | None = None, where: Where | None = None) -> Iterator[Result]:
        """Iterate over the results: all, those of one status, those for which ``where`` holds."""
        if self.stored is None:
            raise UsageError("this batch kept no results (keep_results=False); read them from its sinks")
        wanted = None if status is None else _status(status)
        return (
            result
            for result in self.stored
            if (wanted is None or result.status is wanted) and (where is None or where(result))
        )

    def failures(self) -> Iterator[Result]:
        """Iterate over the results that failed or timed out."""
        return self.results(where=lambda result: result.is_failure)

    def collect(self, *, where: Where | None = None) -> list[Any]:
        """List the outputs of the items that succeeded."""
        return [result.output for result in self.results(status=Status.SUCCEEDED, where=where)]

    def merge(
        self, *, key: str | None = None, conflict: Conflict = "error", where: Where | None = None
    ) -> dict[Any, Any]:
        """Merge the outputs of succeeded items, which must be mappings, into one mapping.

        Without ``key`` their fields are merged; with it, the whole outputs by their field of that name. Where two
        outputs give different values for one entry, ``conflict`` decides: "error", "first", "last" (in input order), or
        a function of the two values.
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
        write_all(self.results(status=status, where=where), target, complete=self.stopped is None and self.is_complete)

    def export(
        self,
        path: str | Path,
        *,
        status: str | None = None,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
    ) -> Path:
        """Write the results to a .jsonl, .json, .csv or .parquet file and return its path; no file after an error.

        The results of a run that ended early go to ``name.partial.ext`` and never replace complete ones. ``columns``
        are as for ``gm.sink``.
        """
        target = sink(path, columns=columns)
        self.stream(target, status=status, where=where)
        return getattr(target, "written", None) or Path(path)

    def to_pandas(self, *, status: str | None = None, where: Where | None = None) -> Any:
        """Return the results as a pandas data frame, with a column per field, such as ``output.answer``."""
        return pandas_frame(self.results(status=status, where=where))

    def to_arrow(self, *, status: str | None = None, where: Where | None = None) -> Any:
        """Return the results as an Arrow table, with a column per field; one of mixed types holds JSON text."""
        return arrow_table(self.results(status=status, where=where))


def _status(name: str) -> Status:
    try:
        return Status(name)
    except ValueError:
        final = ", ".join(status for status in Status if status.is_final)
        raise UsageError(f"no status {name!r}; results have {final}") from None


def merge_outputs(results: Iterable[Result], *, key: str | None, conflict: Conflict) -> dict[Any, Any]:
    """Merge mappings entry by entry; equal values never conflict."""
    if conflict not in get_args(ConflictRule) and not callable(conflict):
        raise UsageError(f"conflict must be 'error', 'first', 'last' or a function of two values, got {conflict!r:.80}")
    merged: dict[Any, Any] = {}
    origin: dict[Any, str] = {}
    for result in results:
        for name, value in _entries(result, key):
            if name not in merged:
                merged[name], origin[name] = value, result.job_id
            elif _is_equal(merged[name], value):
                merged[name] = value
            elif callable(conflict):
                merged[name] = conflict(merged[name], value)
            elif conflict == "last":
                merged[name] = value
            elif conflict == "error":
                raise UsageError(
                    f"{origin[name]!r:.80} and {result.job_id!r:.80} give different values for {name!r:.80}; "
                    "pass conflict='first', 'last' or a function"
                )
    return merged


def _entries(result: Result, key: str | None) -> Iterator[tuple[Any, Any]]:
    output = result.output
    if not isinstance(output, Mapping):
        raise UsageError(f"merge: outputs must be mappings, got {type(output).__name__} from {result.job_id!r:.80}")
    if key is None:
        yield from output.items()
        return
    if key not in output:
        fields_there = ", ".join(map(repr, output))
        raise UsageError(f"merge: the output of {result.job_id!r:.80} has no field {key!r}; it has {fields_there}")
    try:
        hash(output[key])
    except TypeError:
        kind = type(output[key]).__name__
        raise UsageError(f"merge: {key!r} of {result.job_id!r:.80} is a {kind}, which cannot be a key") from None
    yield output[key], output


def _is_equal(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))


def report_record(report: Report, error: Exception | None = None) -> dict[str, Any]:
    """Return a report as data, the same in every front end; docs/cli.md describes the fields."""
    statistics = report.statistics
    return {
        "run": report.run_id,
        "summary": report.summary(),
        "rehearsal": report.is_rehearsal,
        "notes": list(report.notes),
        "done_now": report.done_now,
        "orphans": report.orphans,
        "outdated": report.outdated,
        "stopped": report.stopped,
        "stopped_because": report.stopped_because,
        "error": None if error is None else {"type": type(error).__name__, "message": str(error)},
        "waiting": [{"id": result.job_id, "questions": dict(result.questions)} for result in report.waiting],
        "usage": usage_record(statistics.usage),
        "scores": [figures.to_json() for figures in report.scores],
        "passes": [
            {"run": each.run_id, "summary": each.summary(), "done_now": each.done_now, "stopped": each.stopped}
            for each in report.passes
        ],
        "statistics": {
            field.name: getattr(statistics, field.name) for field in fields(statistics) if field.name != "usage"
        },
    }


class StoredResults:
    """The results of a recorded run, in input order, read anew each time; ``run`` is its record at the end."""

    def __init__(self, journal: Callable[[], AbstractContextManager[Journal]], run_id: str) -> None:
        self._journal = journal
        self._run_id = run_id
        self.run: RunRecord | None = None

    def __iter__(self) -> Iterator[Result]:
        with self._journal() as journal:
            run = self.run or journal.archive.find(self._run_id)
            for entry in scored_entries(journal.archive, run, EVERYTHING):
                yield entry.result

    def complete(self, live: Report) -> Report:
        """Turn the report of what this process saw into the report of the whole run."""
        with self._journal() as journal:
            archive = journal.archive
            run = self.run = archive.find(self._run_id)
            statistics, outdated = _whole_statistics(archive, run, live.statistics)
            failed: Iterable[Result] = ()
            if statistics.failed or statistics.timed_out:
                query = Query(statuses=FAILURES, limit=ERRORS_SHOWN)
                failed = (entry.result for entry in archive.entries(run, query))
            return replace(
                live,
                statistics=statistics,
                errors=tuple(failed),
                orphans=run.orphans,
                outdated=outdated,
                is_complete=run.state is RunState.FINISHED,
                stored=self,
                samples=run.samples,
                is_rehearsal=run.is_rehearsal,
                waiting=first_waiting(archive, run) if statistics.waiting else (),
            )


def _whole_statistics(archive: Archive, run: RunRecord, live: Statistics) -> tuple[Statistics, int]:
    """Return the figures of the whole run, and how many results are outdated."""
    without_row = live.pending + live.cancelled  # a stop of the run leaves items pending, whichever way it ended them
    if run.rows == live.succeeded + live.failed + live.timed_out:  # all rows are from this process, which counted them
        return _with_elapsed(replace(live, pending=without_row, cancelled=0, usage=run.usage), run.elapsed_s), 0
    tally, outdated = Tally(), 0
    for entry in archive.entries(run, EVERYTHING):
        if entry.result.metadata.get("outdated"):
            outdated += 1
        else:
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
    if found.total is not None:
        without_row = min(without_row, max(0, found.total - found.done - outdated))
    return replace(found, pending=without_row), outdated


def _with_elapsed(live: Statistics, elapsed_s: float) -> Statistics:
    """Count the time of earlier processes too, even if they left no row."""
    if elapsed_s <= live.elapsed_s:
        return live
    return replace(live, elapsed_s=elapsed_s, throughput=live.throughput * live.elapsed_s / elapsed_s)


def stored_report(journal: Callable[[], AbstractContextManager[Journal]], run: RunRecord) -> Report:
    """Return the report of a stored run."""
    nothing = Tally().statistics(
        total=run.total,
        elapsed_s=run.elapsed_s,
        held_s=0.0,
        stuck=0,
        hook_errors=0,
        reading=Reading(memory=0.0, cpu=0.0),
        usage=run.usage,
    )
    blank = Report(
        run_id=run.id, statistics=nothing, stopped=None, stopped_because="", errors=(), policy=Policy(), stored=None
    )
    return StoredResults(journal, run.id).complete(blank)
