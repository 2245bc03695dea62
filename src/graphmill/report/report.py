"""The report of a batch: its figures, its first errors, its results, and what can be made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from graphmill.core.errors import UsageError
from graphmill.core.result import Result, Status, StopReason
from graphmill.datasets.sink import Sink, sink, write_all
from graphmill.engine.policy import Policy
from graphmill.engine.statistics import Statistics
from graphmill.report.aggregate import Conflict, merge_outputs
from graphmill.report.text import ERRORS_SHOWN, error_lines, group_lines, seconds, shown, summary_line, waiting_lines
from graphmill.report.usage import usage_lines

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
