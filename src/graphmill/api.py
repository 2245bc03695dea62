"""The facade: what every door and every program calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from graphmill.core.errors import SourceError, UsageError
from graphmill.core.identity import item_id
from graphmill.core.job import Job
from graphmill.core.result import Result
from graphmill.datasets.sink import Sink
from graphmill.engine.bridge import blocking
from graphmill.engine.events import Event
from graphmill.engine.executor import BatchExecutor
from graphmill.engine.policy import Policy
from graphmill.engine.progress import Progress
from graphmill.engine.run import Run
from graphmill.graph.workflow import load
from graphmill.report.report import Report
from graphmill.report.text import ERRORS_SHOWN


async def abatch(  # noqa: PLR0913  one parameter per choice
    graph: Callable[[Any], Any] | str | Path,
    items: Iterable[Any] | AsyncIterable[Any],
    *,
    concurrency: int | None = None,
    policy: Policy | None = None,
    id_field: str | None = None,
    total: int | None = None,
    sinks: Sequence[Sink] = (),
    keep_results: bool = True,
    on_start: Callable[[Run], Any] | None = None,
    on_result: Callable[[Job, Result], Any] | None = None,
    on_progress: Callable[[Progress], Any] | None = None,
    observers: Sequence[Callable[[Event], Any]] = (),
) -> Report:
    """Run a function or a workflow over items and report how it went.

    ``graph`` is a function of one item, async or plain, a loaded workflow, or the path of one. ``items`` is any iterable or
    async iterable; it is read lazily. ``concurrency`` overrides the policy's. An item goes by its field ``id_field``, else
    its own ``id``, else its position. ``sinks`` get every result while the batch runs; with ``keep_results=False`` the
    report holds none, and memory does not grow with the number of items. ``on_start`` is given the live run, for its controls.

    A failing item is a result, never an exception. A source that fails raises SourceError after everything it gave is
    finished; the report up to there is the exception's ``report``. A batch that is cancelled, by Ctrl-C for one, still
    commits its sinks.
    """
    function = load(graph) if isinstance(graph, str | Path) else graph
    if not callable(function):
        raise UsageError(f"the graph is a function, a workflow or a workflow's path, not {graph!r:.80}")
    policy = policy or Policy()
    if concurrency is not None:
        policy = replace(policy, concurrency=concurrency)
    executor = BatchExecutor(policy, on_result=on_result, on_progress=on_progress, observers=observers)
    run = executor.start(items, bind=_binder(function, id_field), total=total)
    reader = _Reader(run, sinks, keep_results=keep_results)
    try:
        async with run:
            if on_start is not None:
                on_start(run)
            await reader.read_all()
    except BaseException:
        for sink in sinks:
            sink.abort()
        raise
    if reader.is_cancelled:
        raise asyncio.CancelledError
    report = reader.report(policy)
    if reader.error is not None:
        reader.error.report = report
        raise reader.error
    return report


batch = blocking(abatch)


def _binder(function: Callable[[Any], Any], id_field: str | None) -> Callable[[int, Any], Job]:
    def bind(position: int, item: Any) -> Job:
        return Job(id=item_id(item, position=position, id_field=id_field), graph=function, input=item)

    return bind


class _Reader:
    """Reads a run to its end: into the sinks, off the loop, and into the report."""

    def __init__(self, run: Run, sinks: Sequence[Sink], *, keep_results: bool) -> None:
        self._run = run
        self._sinks = sinks
        self._kept: list[Result] | None = [] if keep_results else None
        self._first_errors: list[Result] = []
        self._taken: list[Result] = []
        self._writing: asyncio.Future[None] | None = None
        self.error: SourceError | None = None
        self.is_cancelled = False

    async def read_all(self) -> None:
        """Read until nothing is left and commit the sinks. When cancelled, cancel the run and keep what it has come to."""
        try:
            await self._read()
        except asyncio.CancelledError:
            self.is_cancelled = True
            self._run.cancel()
            await self._read()
        for sink in self._sinks:
            await self._run.call_in_thread(sink.commit)

    def report(self, policy: Policy) -> Report:
        """Sum up."""
        kept = None if self._kept is None else tuple(sorted(self._kept, key=lambda result: result.position))
        return Report(
            statistics=self._run.statistics(),
            stopped=self._run.stopped,
            errors=tuple(self._first_errors),
            policy=policy,
            kept=kept,
        )

    async def _read(self) -> None:
        try:
            while self._taken or await self._take():
                await self._write()
                for result in self._taken:
                    self._note(result)
                    self._run.release(result)
                self._taken = []
        except SourceError as error:
            self.error = error

    async def _take(self) -> bool:
        self._taken = await self._run.take()
        return bool(self._taken)

    async def _write(self) -> None:
        """Write what was taken, in a thread; a write that is under way is waited for, never begun twice."""
        if not self._sinks:
            return
        if self._writing is None:
            self._writing = self._run.call_in_thread(partial(self._write_all, self._taken))
        await asyncio.shield(self._writing)
        self._writing = None

    def _write_all(self, results: list[Result]) -> None:
        for result in results:
            for sink in self._sinks:
                sink.write(result)

    def _note(self, result: Result) -> None:
        if self._kept is not None:
            self._kept.append(result)
        if result.is_failure and len(self._first_errors) < ERRORS_SHOWN:
            self._first_errors.append(result)
