"""Read a run's results to the end: into the sinks, off the event loop, and into the report."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from graphmill.core.errors import ChangedError, ExportError, JournalError, SourceError, describe_error
from graphmill.core.result import Result
from graphmill.datasets.sink import Sink
from graphmill.engine.executor import Run
from graphmill.engine.policy import Policy
from graphmill.graph.models.target import current_rehearsal
from graphmill.report.report import Report, StoredResults
from graphmill.report.text import ERRORS_SHOWN

RunError = SourceError | ChangedError | JournalError | ExportError


class ResultReader:
    """Reads one run; ``error`` is what ended it early. A cancelled run is still read to its end."""

    def __init__(
        self,
        run: Run,
        sinks: Sequence[Sink],
        policy: Policy,
        *,
        keep_results: bool,
        stored: Callable[[str], StoredResults] | None = None,
        deliver: Callable[[Result], Awaitable[None]] | None = None,
    ) -> None:
        self._run = run
        self._sinks = sinks
        self._policy = policy
        self._kept: list[Result] | None = [] if keep_results else None
        self._stored = stored
        self._deliver = deliver
        self._first_errors: list[Result] = []
        self._taken: list[Result] = []
        self._writing: asyncio.Future[None] | None = None
        self.notes: list[str] = []
        self.error: RunError | None = None
        self.is_cancelled = False

    async def read_all(self) -> None:
        """Read everything, then commit the sinks. When cancelled, end the run and commit what it has."""
        try:
            await self._finish_once_cancelled(self._read)
            await self._finish_once_cancelled(self._commit)
        except ExportError as error:
            self.error = error
            for result in self._taken:
                self._note(result)
            self._abort()
        except BaseException:
            self._abort()
            raise

    def report(self) -> Report:
        """Sum up: what was read here or, for a recorded run, what its rows say."""
        statistics = self._run.statistics()
        report = Report(
            run_id=self._run.id,
            done_now=statistics.succeeded + statistics.failed + statistics.timed_out,
            statistics=statistics,
            stopped=self._run.stopped,
            stopped_because=self._run.stopped_because,
            errors=tuple(self._first_errors),
            policy=self._policy,
            stored=None if self._kept is None else tuple(sorted(self._kept, key=lambda result: result.position)),
            is_rehearsal=current_rehearsal.get() is not None,
        )
        if self._stored is not None and self._run.id is not None and not isinstance(self.error, JournalError):
            report = self._stored(self._run.id).complete(report)
        if report.stopped is None and report.is_complete and report.done_now == report.statistics.done:
            return replace(report, notes=(*self.notes, *_notes(report)))
        return report

    async def _finish_once_cancelled(self, work: Callable[[], Any]) -> None:
        """Finish the work even if cancelled once; a second cancellation ends it."""
        try:
            await work()
        except asyncio.CancelledError:
            if self.is_cancelled:
                raise
            self.is_cancelled = True
            self._run.interrupt()
            await work()

    async def _read(self) -> None:
        try:
            while self._taken or await self._take():
                await self._in_thread(self._write_all)
                while self._taken:
                    if self._deliver is not None:
                        await self._deliver(self._taken[0])
                    result = self._taken.pop(0)
                    self._note(result)
                    self._run.release(result)
        except (SourceError, ChangedError, JournalError) as error:
            self.error = error

    async def _take(self) -> bool:
        self._taken = await self._run.take()
        return bool(self._taken)

    async def _commit(self) -> None:
        complete = self.error is None and self._run.stopped is None
        await self._in_thread(partial(self._commit_all, complete=complete))

    async def _in_thread(self, work: Callable[[], None]) -> None:
        """Run sink work in a thread. When cancelled, wait for work that already runs; never start it twice."""
        if not self._sinks:
            return
        if self._writing is None:
            self._writing = self._run.call_in_thread(work)
        await asyncio.shield(self._writing)
        self._writing = None

    def _write_all(self) -> None:
        for result in self._taken:
            for sink in self._sinks:
                _guarded(sink.write, result)

    def _commit_all(self, *, complete: bool) -> None:
        for sink in self._sinks:
            _guarded(sink.commit, complete=complete)

    def _abort(self) -> None:
        for sink in self._sinks:
            sink.abort()

    def _note(self, result: Result) -> None:
        if self._kept is not None:
            self._kept.append(result)
        if result.is_failure and len(self._first_errors) < ERRORS_SHOWN:
            self._first_errors.append(result)


def _guarded(act: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """Turn any exception of a sink into ExportError."""
    try:
        act(*args, **kwargs)
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(f"a sink failed: {describe_error(error)}") from error


def _notes(report: Report) -> list[str]:
    """Say that a rehearsal had nothing to answer: whatever called a model did so by itself."""
    if not report.is_rehearsal or report.statistics.usage or not report.done_now:
        return []
    return ["nothing was rehearsed: no llm node and no gm.complete called a model"]
