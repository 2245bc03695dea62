"""A run in the foreground of a command: its live display, what signals do to it, its output, its summary and its status."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import typer

from graphmill.api.batch import Watching
from graphmill.api.reader import Ended
from graphmill.cli.answer import require_stdout, unwritable
from graphmill.cli.display import Display
from graphmill.cli.exit_code import ExitCode
from graphmill.cli.interruption import Interruption
from graphmill.cli.journal import opened, require_apart
from graphmill.cli.stderr import tell_error
from graphmill.cli.width import fitted
from graphmill.core.errors import ChangedError, ExportError, GraphmillError, JournalError, SourceError, UsageError
from graphmill.core.json import to_json
from graphmill.core.result import StopReason
from graphmill.datasets.sink import FileSink, Sink, sink, write_all
from graphmill.engine.run import Run
from graphmill.journal.opening import fixed
from graphmill.report.report import Report, report_record
from graphmill.report.run_pages import next_lines
from graphmill.report.run_view import view_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreground:
    """How a command shows its run.

    ``is_recorded`` says that its rows come from the journal ``journal`` when it has ended, ``if_idle`` what to say if all
    was done before, ``if_empty`` if there was no item.
    """

    title: str
    details: tuple[str, ...] = ()
    output: str | None
    as_json: bool
    is_recorded: bool
    journal: str | Path | None = None
    if_idle: str = ""
    if_empty: str = ""

    def __post_init__(self) -> None:
        if self.as_json and self.output == "-":
            raise UsageError("--json and --output - both want standard output; write the results to a file")
        if self.output == "-":
            require_stdout()
        if self.is_recorded:
            require_apart(self.output, fixed(self.journal))

    def perform(self, work: Callable[[Watching], Report]) -> None:
        """Run to the end; raise what ended it early, or typer.Exit with the status."""
        target = None if self.output is None else sink(self.output)
        display = Display(is_moving=self.output != "-" or not sys.stdout.isatty())
        is_later = self.is_recorded and isinstance(target, FileSink) and not target.is_special
        interruption = Interruption(display, target, is_later=is_later)
        with interruption, display, redirect_stdout(sys.stderr):  # user code must not print among results
            report, error = self._followed(work, target, display, interruption, is_later=is_later)
        written = target.written if isinstance(target, FileSink) else None
        is_told = self._tell(report, error, written)
        _tell_partial(target)
        if is_later and interruption.is_hasty:
            _say(f"nothing was written for {self.output}, in haste: graphmill export {report.run_id} FILE does it")
        if interruption.code is not None:
            if error is not None:
                tell_error(error)
            raise typer.Exit(interruption.code)
        if error is not None:
            raise error
        raise typer.Exit(_exit_code(report, is_told=is_told))

    def _followed(
        self,
        work: Callable[[Watching], Report],
        target: Sink | None,
        display: Display,
        interruption: Interruption,
        *,
        is_later: bool,
    ) -> tuple[Report, Ended | None]:
        """Run where it can be seen and ended; what ended it early still has a report, if it had begun."""

        def start(run: Run) -> None:
            interruption.watch(run)
            display.note(" · ".join([self.title, *([] if run.id is None else [f"run {run.id}"]), *self.details]))

        sinks = [] if target is None or is_later else [target]
        report, error = _run(work, Watching(sinks=sinks, on_start=start, on_progress=display.show))
        if target is not None and is_later and not interruption.is_hasty:
            error = _written(report, target, error)
        return report, error

    def _tell(self, report: Report, error: GraphmillError | None, written: Path | None) -> bool:
        """Print the summary; tell whether it could be printed, which is no reason to forget how the run ended."""
        try:
            self.tell(report, error, written)
        except BrokenPipeError:  # a reader that is gone knows why
            return False
        except (ExportError, OSError) as trouble:
            tell_error(unwritable(trouble) if isinstance(trouble, OSError) else trouble)
            return False
        return True

    def tell(self, report: Report, error: GraphmillError | None, written: Path | None) -> None:
        """Print the summary, with the file that was written, if one was."""
        if self.as_json:
            typer.echo(to_json(report_record(report, error)))
            require_stdout()
            return
        lines = [
            *self.idle(report, error),
            report.closing_line(),
            *report.usage_lines(),
            *report.error_lines(),
            *report.waiting_lines(),
            *self._where(written),
            *self.next_steps(report, error, is_written=written is not None),
        ]
        stream = sys.stderr if self.output == "-" else sys.stdout
        typer.echo("\n".join(fitted(lines, stream)), file=stream)

    def _where(self, written: Path | None) -> list[str]:
        """Say where the rows are of a run that has reached its end; of others it is told as a warning."""
        return (
            [f"results in {self.output}"]
            if self.output and written is not None and written.name == Path(self.output).name
            else []
        )

    def idle(self, report: Report, error: GraphmillError | None) -> list[str]:
        """Say that there was nothing to do, or that all was done before, if so."""
        if report.done_now or report.stopped is not None or error is not None:
            return []
        if self.if_empty and not report.statistics.done:
            return [self.if_empty]
        if not self.if_idle:
            return []
        if report.waiting:
            return ["all that is left waits for an answer"]
        return [self.if_idle if report.statistics.done else "there is nothing to do"]

    def next_steps(self, report: Report, error: GraphmillError | None, *, is_written: bool = False) -> list[str]:
        """Name the commands that go on from here."""
        if report.run_id is None or isinstance(
            error, JournalError | ChangedError
        ):  # the latter says itself how to go on
            return []
        with opened(self.journal) as store:
            return next_lines(view_of(store.archive, store.archive.find(report.run_id)), is_written=is_written)


def _run(work: Callable[[Watching], Report], watching: Watching) -> tuple[Report, Ended | None]:
    try:
        return work(watching), None
    except (SourceError, ExportError, ChangedError, JournalError) as error:
        if error.report is None:
            raise
        return error.report, error


def _written(report: Report, target: Sink, error: Ended | None) -> Ended | None:
    """Write the rows of a recorded run; if that fails they are still in the journal."""
    if isinstance(error, JournalError):
        return error
    try:
        write_all(report.results(), target, complete=report.stopped is None and report.is_complete and error is None)
    except (ExportError, OSError) as trouble:
        failure = ExportError(f"{trouble}; the results are safe: graphmill export {report.run_id} FILE writes them")
        failure.report = report
        return error or failure
    return error


def _tell_partial(target: Sink | None) -> None:
    if isinstance(target, FileSink) and target.is_partial and target.written is not None:
        _say(f"the run did not reach its end; its rows are in {target.written.name}")


def _say(line: str) -> None:
    typer.echo("\n".join(fitted([line], sys.stderr)), err=True)


def _exit_code(report: Report, *, is_told: bool) -> ExitCode:
    if report.stopped is StopReason.PARKED or (report.stopped is None and not report.is_complete):
        return ExitCode.PAUSED
    if report.is_failure:
        return ExitCode.FAILURES
    return ExitCode.DONE if is_told else ExitCode.OUTPUT
