"""The facade: what every door and every program calls."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from graphmill.core.errors import ExportError, SourceError, UsageError
from graphmill.core.identity import item_id
from graphmill.core.job import Job
from graphmill.core.json_text import require_json
from graphmill.core.result import Result
from graphmill.datasets.sink import Sink
from graphmill.engine.alerts import Alert
from graphmill.engine.bridge import blocking
from graphmill.engine.events import Event
from graphmill.engine.executor import BatchExecutor
from graphmill.engine.policy import Isolation, Policy, require_policy
from graphmill.engine.processes.importable import require_importable
from graphmill.engine.progress import Progress
from graphmill.engine.run import Run
from graphmill.graph.graph import Graph
from graphmill.graph.workflow import load
from graphmill.report.report import Report
from graphmill.report.text import ERRORS_SHOWN


async def abatch(  # noqa: PLR0913  one parameter per choice
    graph: Callable[[Any], Any] | str | Path,
    items: Iterable[Any] | AsyncIterable[Any],
    *,
    concurrency: int | None = None,
    isolation: Isolation | None = None,
    policy: Policy | None = None,
    id_field: str | None = None,
    total: int | None = None,
    sinks: Sequence[Sink] = (),
    keep_results: bool = True,
    on_start: Callable[[Run], Any] | None = None,
    on_result: Callable[[Job, Result], Any] | None = None,
    on_progress: Callable[[Progress], Any] | None = None,
    on_alert: Callable[[Alert], Any] | None = None,
    observers: Sequence[Callable[[Event], Any]] = (),
) -> Report:
    """Run a function or a workflow over items and report how it went.

    ``graph`` is a function of one item, async or plain, a loaded workflow, or the path of one. ``items`` is any iterable or
    async iterable, read lazily; ``total`` says how many there are where they can not. ``concurrency`` (10) and ``isolation``
    (None, or "process") override the policy's. An item goes by its field ``id_field``, else its own ``id``, else its position.
    ``sinks`` get every result while the batch runs; with ``keep_results=False`` the report holds none, and memory does not grow
    with the number of items.

    ``on_start(run)`` is given the live run, for its controls; ``on_result(job, result)`` sees every result,
    ``on_progress(progress)`` the newest reading twice a second, ``on_alert(alert)`` what the policy's alerts find, each of
    ``observers`` every event.

    A failing item is a result, never an exception. A source that fails raises SourceError after everything it gave is
    finished, a sink that fails raises ExportError; the report up to there is the exception's ``report``. A batch that is
    cancelled, by Ctrl-C for one, still commits its sinks.
    """
    _require_sinks(sinks)
    function = _function(graph)
    policy = require_policy(policy)
    if concurrency is not None:
        policy = replace(policy, concurrency=concurrency)
    if isolation is not None:
        policy = replace(policy, isolation=isolation)
    if policy.isolation == "process":
        _require_isolable(function)
    # An output that no row can hold is that job's failure, instead of the whole batch's when it is written.
    accept = require_json if any(getattr(sink, "holds_rows", False) for sink in sinks) else None
    executor = BatchExecutor(policy, on_result=on_result, on_progress=on_progress, on_alert=on_alert, observers=observers)
    run = executor.start(items, bind=_binder(function, id_field), total=total, accept=accept)
    reader = _Reader(run, sinks, policy, keep_results=keep_results)
    async with run:
        if on_start is not None:
            on_start(run)
        await reader.read_all()
    if reader.is_cancelled:
        raise asyncio.CancelledError
    if reader.error is not None:
        reader.error.report = reader.report()
        raise reader.error
    return reader.report()


batch = blocking(abatch)


def _function(graph: Any) -> Callable[[Any], Any]:
    function = load(graph) if isinstance(graph, str | Path) else graph
    if not callable(function):
        raise UsageError(f"the graph is a function, a workflow or a workflow's path, not {graph!r:.80}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"{graph!r:.80} yields; a job has one output: return a list")
    return function


def _require_sinks(sinks: Sequence[Sink]) -> None:
    is_series = isinstance(sinks, Sequence) and not isinstance(sinks, str)
    if not is_series or not all(hasattr(sink, "write") and hasattr(sink, "commit") and hasattr(sink, "abort") for sink in sinks):
        raise UsageError(f"sinks is a list of sinks, such as [gm.sink('out.jsonl')], not {sinks!r:.80}")


def _binder(function: Callable[[Any], Any], id_field: str | None) -> Callable[[int, Any], Job]:
    def bind(position: int, item: Any) -> Job:
        if isinstance(item, Job):
            raise UsageError("the items of a batch are plain; jobs, each with its own graph, are run by gm.BatchExecutor().start(jobs)")
        return Job(id=item_id(item, position=position, id_field=id_field), graph=function, input=item)

    return bind


def _require_isolable(function: Callable[[Any], Any]) -> None:
    if isinstance(function, Graph):
        raise UsageError("a workflow can not run with isolation='process' yet; leave isolation out, or run a function")
    require_importable(function)


class _Reader:
    """Reads a run to its end: into the sinks, off the loop, and into the report."""

    def __init__(self, run: Run, sinks: Sequence[Sink], policy: Policy, *, keep_results: bool) -> None:
        self._run = run
        self._sinks = sinks
        self._policy = policy
        self._kept: list[Result] | None = [] if keep_results else None
        self._first_errors: list[Result] = []
        self._taken: list[Result] = []
        self._writing: asyncio.Future[None] | None = None
        self.error: SourceError | ExportError | None = None
        self.is_cancelled = False

    async def read_all(self) -> None:
        """Read until nothing is left, then let the sinks keep it. When cancelled, cancel the run and keep what it has come to."""
        try:
            await self._insist(self._read)
            await self._insist(self._commit)
        except ExportError as error:
            self.error = error
            for result in self._taken:
                self._note(result)
            self._abort()
        except BaseException:
            self._abort()
            raise

    def report(self) -> Report:
        """Sum up."""
        kept = None if self._kept is None else tuple(sorted(self._kept, key=lambda result: result.position))
        return Report(
            statistics=self._run.statistics(),
            stopped=self._run.stopped,
            stopped_because=self._run.stopped_because,
            errors=tuple(self._first_errors),
            policy=self._policy,
            kept=kept,
        )

    async def _insist(self, work: Callable[[], Any]) -> None:
        """Do something to its end though cancelled once; a second cancellation is obeyed."""
        try:
            await work()
        except asyncio.CancelledError:
            if self.is_cancelled:
                raise
            self.is_cancelled = True
            self._run.cancel()
            await work()

    async def _read(self) -> None:
        try:
            while self._taken or await self._take():
                await self._in_thread(self._write_all)
                for result in self._taken:
                    self._note(result)
                    self._run.release(result)
                self._taken = []
        except SourceError as error:
            self.error = error

    async def _take(self) -> bool:
        self._taken = await self._run.take()
        return bool(self._taken)

    async def _commit(self) -> None:
        complete = self.error is None and self._run.stopped is None
        await self._in_thread(partial(self._commit_all, complete=complete))

    async def _in_thread(self, work: Callable[[], None]) -> None:
        """Let the sinks work in a thread; what is under way is waited for, never begun twice."""
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
    """Turn whatever a sink raises into the one error that a batch raises for it."""
    try:
        act(*args, **kwargs)
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(f"a sink failed: {type(error).__name__}: {error}") from error
