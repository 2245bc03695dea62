"""A run in the foreground of a command: live display, signals, output, summary and exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import typer

from graphmill.api.batch import BatchHooks
from graphmill.api.items import Single
from graphmill.api.model_changes import ModelParams, change_models, plan_recompute, require_nodes
from graphmill.api.reader import RunError
from graphmill.api.rehearsal import rehearsing_as
from graphmill.api.resume import graph_of
from graphmill.api.run import only_result
from graphmill.cli.display import Display
from graphmill.cli.signals import Interruption
from graphmill.cli.terminal import (
    ExitCode,
    json_line,
    print_error,
    print_note,
    print_stderr,
    printable,
    require_stdout,
    stdout_error,
    wrap_lines,
)
from graphmill.cli.values import open_existing, require_own_file, require_own_file_of
from graphmill.core.errors import ChangedError, ExportError, GraphmillError, JournalError, SourceError, UsageError
from graphmill.core.job import JOB_ID
from graphmill.core.json import item_key, to_json
from graphmill.core.result import Result, StopReason
from graphmill.datasets.row import row_of
from graphmill.datasets.sink import FileSink, Sink, sink, write_all
from graphmill.engine.executor import Run
from graphmill.engine.monitor.tracing import flush_telemetry
from graphmill.graph.models.target import current_rehearsal, run_notes
from graphmill.journal.item_name import find_item
from graphmill.journal.records import RunRecord
from graphmill.journal.resume import OnChange
from graphmill.journal.store import Archive, Store, fixed
from graphmill.report.item.batches import batch_lines, batches_of
from graphmill.report.item.conversation import debate_text, is_debate
from graphmill.report.item.steps import steps_of_item
from graphmill.report.item.trace import TracePart, trace_of
from graphmill.report.next_commands import next_lines
from graphmill.report.report import Report, StoredResults, report_record
from graphmill.report.run_view import view_of
from graphmill.report.text import REHEARSAL, count_text, job_lines, output_text
from graphmill.report.usage import usage_record


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreground:
    """How a command shows its run.

    ``is_recorded`` says that its results are read from ``journal`` when it has ended, or from ``store`` if that is
    open; ``if_idle`` is printed if there was nothing to do, ``if_empty`` if there was no item. With ``scores_only`` the
    run has ended before, and only scoring it can fail. ``shows_items`` prints a line for each item that has ended.
    """

    title: str
    details: tuple[str, ...] = ()
    output: str | None
    as_json: bool
    is_recorded: bool
    journal: str | Path | None = None
    store: Store | None = None
    if_idle: str = ""
    if_empty: str = ""
    scores_only: bool = False
    shows_items: bool = False

    def __post_init__(self) -> None:
        if self.as_json and self.output == "-":
            raise UsageError("--json and --output - both write to standard output; write the results to a file")
        if self.output == "-":
            require_stdout()
        if self.is_recorded:
            require_own_file(self.output, journal=fixed(self.journal))

    def perform(self, work: Callable[[BatchHooks], Report]) -> None:
        """Run to the end; raise what ended it early, or typer.Exit with the status."""
        try:
            self._perform(work)
        finally:
            flush_telemetry()

    def _perform(self, work: Callable[[BatchHooks], Report]) -> NoReturn:
        target = None if self.output is None else sink(self.output)
        file = target if isinstance(target, FileSink) else None
        display = Display(is_moving=self.output != "-" or not sys.stdout.isatty())
        writes_from_journal = self.is_recorded and file is not None and not file.is_special
        interruption = Interruption(display, file, writes_from_journal=writes_from_journal)
        shown: list[str] = []
        with interruption, display, redirect_stdout(sys.stderr):  # user code must not print among results
            report, error = self._run(
                work, target, display, interruption, shown, writes_from_journal=writes_from_journal
            )
        written = None if file is None else file.written
        is_printed = self._print_summary(report, error, written)
        for note in report.notes:
            if note not in shown:
                print_note(note)
        if file is not None and written is not None and file.is_partial:
            print_stderr([f"the run did not finish; its results are in {written.name}"])
        if writes_from_journal and interruption.is_hurried:
            print_stderr([f"{self.output} was not written; to write it: graphmill export {report.run_id} FILE"])
        if interruption.exit_code is not None:
            if error is not None:
                print_error(error)
            raise typer.Exit(interruption.exit_code)
        if error is not None:
            raise error
        raise typer.Exit(self.exit_code(report, is_printed=is_printed))

    def _run(
        self,
        work: Callable[[BatchHooks], Report],
        target: Sink | None,
        display: Display,
        interruption: Interruption,
        shown: list[str],
        *,
        writes_from_journal: bool,
    ) -> tuple[Report, RunError | None]:
        """Run, and write the results. What ended a run early comes with its report, if the run had started.

        ``shown`` receives the notes that were shown when it started.
        """
        started: list[Run] = []

        def start(run: Run) -> None:
            interruption.watch(run)
            rehearsal = REHEARSAL if current_rehearsal.get() else ""
            parts = [self.title, run.id and f"run {run.id}", rehearsal, *self.details]
            if started:  # the run has ended, and its scoring passes follow
                parts = ["scoring", f"run {run.id}"]
            started.append(run)
            display.note(" · ".join(filter(None, parts)))
            for note in run_notes.get() or ():
                display.note(f"note: {note}")
                shown.append(note)

        sinks = [target] if target is not None and not writes_from_journal else []
        error: RunError | None = None
        try:
            hooks = BatchHooks(sinks=sinks, on_start=start, on_progress=display.show)
            if self.shows_items:
                hooks["on_result"] = display.show_result
            report = work(hooks)
        except (SourceError, ExportError, ChangedError, JournalError) as ended:
            if ended.report is None:
                raise
            report, error = ended.report, ended
        if target is not None and writes_from_journal and not interruption.is_hurried:
            error = _write_results(report, target, error)
        return report, error

    def exit_code(self, report: Report, *, is_printed: bool) -> ExitCode:
        """Return the status for how a run ended."""
        return _exit_code(report, is_printed=is_printed, scores_only=self.scores_only)

    def _print_summary(self, report: Report, error: GraphmillError | None, written: Path | None) -> bool:
        """Print the summary; return False if that failed, which must not hide how the run ended."""
        try:
            self.print_report(report, error, written)
        except BrokenPipeError:  # a reader that is gone knows why
            return False
        except OSError as trouble:
            print_error(stdout_error(trouble))
            return False
        except ExportError as trouble:
            print_error(trouble)
            return False
        return True

    def print_report(self, report: Report, error: GraphmillError | None, written: Path | None) -> None:
        """Print the summary, with the file that was written, if one was."""
        if self.as_json:
            typer.echo(to_json(report_record(report, error)))
            require_stdout()
            return
        is_written = written is not None
        lines = [*self.idle_lines(report, error), report.closing_line()]
        if not self.scores_only:  # the usage would be that of the run, which is not new
            lines += report.usage_lines()
        lines += report.error_lines()
        lines += [*report.waiting_lines(), *report.score_lines()]
        if self.output and written is not None and written.name == Path(self.output).name:
            lines.append(f"results in {self.output}")
        lines += self.next_lines(report, error, is_written=is_written)
        stream = sys.stderr if self.output == "-" else sys.stdout
        typer.echo("\n".join(wrap_lines(lines, stream)), file=stream)

    def idle_lines(self, report: Report, error: GraphmillError | None) -> list[str]:
        """Say that there was nothing to do, if so."""
        scored_now = any(scoring.done_now for scoring in report.passes)
        if report.done_now or scored_now or report.stopped is not None or error is not None:
            return []
        if self.if_empty and not report.statistics.done:
            return [self.if_empty]
        if not self.if_idle:
            return []
        if report.waiting:
            return ["every remaining item waits for an answer"]
        if not report.statistics.done:
            return ["nothing to do"]
        return [self.if_idle]

    def next_lines(self, report: Report, error: GraphmillError | None, *, is_written: bool = False) -> list[str]:
        """Name the commands for what is left; a ChangedError names its own."""
        if report.run_id is None or isinstance(error, JournalError | ChangedError):
            return []
        with self._open_store() as store:
            run = report.stored.run if isinstance(report.stored, StoredResults) else None
            run = run or store.archive.find(report.run_id)
            lines = next_lines(view_of(store.archive, run), is_written=is_written)
            for scoring in report.passes:
                if scoring.run_id is not None and (scoring.is_failure or not scoring.is_complete):
                    found = store.archive.find(scoring.run_id)
                    lines += next_lines(view_of(store.archive, found), is_written=True)
            return lines

    @contextmanager
    def _open_store(self) -> Iterator[Store]:
        if self.store is not None:
            yield self.store
        else:
            with open_existing(self.journal) as store:
                yield store


def _write_results(report: Report, target: Sink, error: RunError | None) -> RunError | None:
    """Write the results of a recorded run; return what ended it, or what went wrong here."""
    if isinstance(error, JournalError):
        return error
    is_complete = report.stopped is None and report.is_complete and error is None
    try:
        write_all(report.results(), target, complete=is_complete)
    except (ExportError, OSError) as trouble:
        failure = ExportError(f"{trouble}; no results are lost, to write them: graphmill export {report.run_id} FILE")
        failure.report = report
        return error or failure
    return error


def _exit_code(report: Report, *, is_printed: bool, scores_only: bool = False) -> ExitCode:
    for scoring in report.passes:
        code = _exit_code(scoring, is_printed=True)
        if code is not ExitCode.SUCCESS:
            return code
    if scores_only:
        return ExitCode.SUCCESS if is_printed else ExitCode.OUTPUT
    if report.stopped is StopReason.BUDGET:
        return ExitCode.BUDGET
    if report.stopped is StopReason.OUTAGE or (report.stopped is None and not report.is_complete):
        return ExitCode.PAUSED
    if report.is_failure:
        return ExitCode.FAILURES
    return ExitCode.SUCCESS if is_printed else ExitCode.OUTPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleForeground(Foreground):
    """How a command shows a run of one job: its outputs on standard output, everything else on standard error."""

    item: Single

    def print_report(
        self,
        report: Report,
        error: GraphmillError | None,
        written: Path | None,  # noqa: ARG002  it has no output file
    ) -> None:
        """Print the job's outputs or, with --json, its row, and how it went."""
        if error is not None:  # the error is printed by itself
            return
        result = only_result(report, self.item)
        if not (result.is_success or result.is_failure):  # unfinished: report the run's time so far
            result = msgspec.structs.replace(result, duration_s=report.statistics.elapsed_s)
        if self.as_json:
            usage = usage_record(report.statistics.usage)
            about = {"run": report.run_id, "rehearsal": report.is_rehearsal, "usage": usage}
            typer.echo(json_line(row_of(result) | about))
            require_stdout()
            return
        if result.is_success:
            typer.echo(_for_stdout(self._output_text(report, result.output)))
        print_stderr(list(self._about(report, result, error)))
        if result.is_success:
            require_stdout()

    def exit_code(self, report: Report, *, is_printed: bool) -> ExitCode:
        """Return the status; a job with outputs has failures too if something inside it failed."""
        if report.is_complete and only_result(report, self.item).is_degraded:
            return ExitCode.FAILURES
        return Foreground.exit_code(self, report, is_printed=is_printed)

    def _about(self, report: Report, result: Result, error: GraphmillError | None) -> Iterable[str]:
        if not report.waiting:
            yield from self.idle_lines(report, error)
        yield from job_lines(result)
        yield from report.usage_lines()
        for batch in batches_of(self._trace(report), result.output):
            yield from (f"  {line}" for line in batch_lines(batch))
        yield from self.next_lines(report, error)

    def _output_text(self, report: Report, output: Any) -> str:
        if report.run_id is None or not is_debate(output):
            return output_text(output)
        with self._open_store() as store:
            run = store.archive.find(report.run_id)
            history = find_item(store.archive, run, JOB_ID, with_calls=True).history
            return debate_text(output, steps_of_item(run.id, JOB_ID, history))

    def _trace(self, report: Report) -> TracePart:
        """Read the steps of a job that is recorded."""
        if report.run_id is None:
            return trace_of(())
        with self._open_store() as store:
            return trace_of(store.archive.history(store.archive.find(report.run_id), item_key(JOB_ID)).steps)


def _for_stdout(text: str) -> str:
    """Escape what has no encoding and, on a terminal, replace control characters."""
    plain = text.encode(errors="backslashreplace").decode()
    if sys.stdout.isatty():
        return printable(plain, also="\n\t")
    return plain


def has_score(outputs: Iterable[str] | None) -> bool:
    """Whether each item gets a line: only if the workflow's outputs have a score."""
    return outputs is not None and "score" in outputs


# -- runs that are resumed or retried


def foreground_of(run: RunRecord, *, output: str | None, **given: Any) -> Foreground:
    """Show a resumed run as it was shown when it started, unless its results are to be written to a file."""
    require_own_file_of(run, output)
    single = Single.noted(run.source)
    if single is None or output is not None:
        shows_items = has_score(run.graph.get("outputs"))
        return Foreground(output=output, is_recorded=True, scores_only=run.is_pass, shows_items=shows_items, **given)
    return SingleForeground(output=None, is_recorded=True, item=single, **given)


def output_of(run: RunRecord) -> str | None:
    """Return the file that a run writes its results to; standard output is not that of the command that started it."""
    found = run.options.get("output")
    if isinstance(found, str) and found != "-":
        return found
    return None


class ModelChoices(ModelParams, total=False):
    """Models and their parameters given for a run that is resumed or retried; empty if none is given."""

    models: Sequence[str]


def model_choices(models: Sequence[str] | None, temperature: float | None, max_tokens: int | None) -> ModelChoices:
    """Return what the options choose."""
    if not models and temperature is None and max_tokens is None:
        return {}
    return {"models": models or (), "temperature": temperature, "max_tokens": max_tokens}


def say_recompute(
    archive: Archive, run: RunRecord, graph: Callable[[Any], Any] | None, on_change: OnChange | None
) -> None:
    """Say what an edit of the workflow makes a resume do again, and what that costs, before it does or refuses it."""
    if on_change == "keep":
        return
    try:
        with rehearsing_as(run):
            plan = plan_recompute(archive, run, graph or graph_of(run), on_change)
    except GraphmillError:  # the resume itself says what is wrong
        return
    if plan is not None:
        when = "the workflow was edited" if on_change == "invalidate" else "with --on-change invalidate"
        print_note(f"{when}: {plan}")


def model_details(
    run: RunRecord, choices: ModelChoices, on_change: OnChange | None, *, results: int = 0
) -> tuple[str, ...]:
    """Say which models a run calls or, if others are chosen, what changes and what happens to results."""
    models = tuple(run.graph.get("models", ()))
    if not choices:
        return models
    require_nodes(run)
    with rehearsing_as(run):
        other = change_models(run, graph_of(run), on_change=on_change, **choices)
    changes = tuple(other.words.values()) or models
    fate = {"keep": "kept", "invalidate": "redone"}.get(other.on_change)
    if results and fate:
        changes += (f"{count_text(results, 'result')} {fate}",)
    return changes
