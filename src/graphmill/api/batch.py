"""A batch: a function, a workflow or a LangGraph graph over many items."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from typing import Any, TypedDict, Unpack

import msgspec

from graphmill.api.items import id_rule, no_item, require_fields, require_id, require_samples, sampled
from graphmill.api.reader import Reader
from graphmill.api.recording import Place, Recording, kept_beside, planned
from graphmill.core.errors import UsageError
from graphmill.core.foreign import AdaptedGraph, ForeignGraph, adapted
from graphmill.core.job import Effect, Job, sample_id
from graphmill.core.json import require_json
from graphmill.core.result import Result
from graphmill.core.suggest import suggestion
from graphmill.datasets.sink import Sink
from graphmill.engine.alerts import Alert
from graphmill.engine.bridge import blocking
from graphmill.engine.events import Event
from graphmill.engine.executor import BatchExecutor
from graphmill.engine.feed import known_length
from graphmill.engine.policy import Isolation, Policy, Retry, require_policy
from graphmill.engine.processes.importable import require_importable
from graphmill.engine.progress import Progress
from graphmill.engine.run import Run
from graphmill.graph.graph import Graph
from graphmill.graph.models.nodes import require_models
from graphmill.graph.workflow import load
from graphmill.journal.intake import OnChange
from graphmill.report.report import Report

GraphLike = Callable[[Any], Any] | ForeignGraph | str | Path


async def abatch(  # noqa: PLR0913  one parameter per choice
    graph: GraphLike,
    items: Iterable[Any] | AsyncIterable[Any],
    *,
    concurrency: int | None = None,
    isolation: Isolation | None = None,
    policy: Policy | None = None,
    id_field: str | None = None,
    total: int | None = None,
    samples: int = 1,
    keep_results: bool = True,
    run_id: str | None = None,
    journal: Place | None = None,
    on_change: OnChange = "refuse",
    answers: Mapping[str, Any] | None = None,
    effect: Effect = "repeatable",
    version: str | None = None,
    notes: Mapping[str, Any] | None = None,
    **watching: Unpack[Watching],
) -> Report:
    """Run a graph over items and report how it went.

    ``graph`` is a function of one item, async or plain, a loaded workflow, the path of one, or a compiled LangGraph graph.
    ``items`` is any iterable or async iterable, read lazily; ``total`` says how many there are where they can not.
    ``concurrency`` (10 or, if that is more, the workflow's largest ``max_concurrent``) and ``isolation`` (None, or "process")
    override the policy's. An item goes by its field ``id_field``, else its own ``id``, else its position. With ``samples`` each is done so
    many times, as jobs ``id``, ``id#2``, ``id#3``, whose results tell their ``sample``; models are asked each time, with a seed that is
    one more if there is one. ``sinks`` get every result while the batch runs; with ``keep_results=False`` the report holds none, and
    memory does not grow with the number of items.

    With a ``run_id`` or a ``journal`` (a path, or gm.open_journal) the batch is recorded, and goes on where it was if that run
    is there already; an item without an id then goes by its content. ``on_change`` says what to do if the graph or an item is
    not what it was: "refuse", "invalidate" (do again what it concerns) or "keep". ``answers`` are those to questions that items
    of that run wait with (gm.ask), by the ids of the items. A changed ``version`` counts as a changed
    function; ``notes`` are kept in the manifest. With ``effect="unsafe"`` an item must not happen twice: one of which nobody
    knows whether it has happened is failed as ambiguous.

    ``on_start(run)`` is given the live run, for its controls; ``on_result(job, result)`` sees every result,
    ``on_progress(progress)`` the newest reading twice a second, ``on_alert(alert)`` what the policy's alerts find, each of
    ``observers`` every event.

    A failing item is a result, never an exception. A source that fails raises SourceError after everything it gave is
    finished, a sink that fails raises ExportError, a journal that fails JournalError; the report up to there is the
    exception's ``report``. A batch that is cancelled, by Ctrl-C for one, still commits its sinks.
    """
    require_known(abatch, watching)
    require_id(items, id_field)
    require_samples(samples)
    function = function_of(graph)
    require_fields(function, items)
    policy = policy_for(function, policy, concurrency=concurrency, isolation=isolation)
    recording = None
    if answers and run_id is None:
        raise UsageError("answers belong to a run whose items wait for them: give its run_id")
    if run_id is not None or journal is not None:
        recording = planned(
            journal,
            graph=function,
            items=items,
            policy=policy,
            options={"id_field": id_field, **(notes or {})},
            run_id=run_id,
            total=total,
            on_change=on_change,
            answers=answers,
            effect=effect,
            version=version,
            samples=samples,
        )
    bind = _binder(function, id_rule(items, id_field), effect, samples)
    if samples > 1:
        count = known_length(items) if total is None else total
        items, total = sampled(items, samples), None if count is None else count * samples
    report = await execute(
        function, items, policy, recording, bind=bind, total=total, keep_results=keep_results, **watching
    )
    return replace(report, samples=samples)


batch = blocking(abatch)


async def execute(
    function: Callable[[Any], Any],
    items: Any,
    policy: Policy,
    recording: Recording | None,
    *,
    bind: Callable[[int, Any], Job] | None = None,
    total: int | None = None,
    keep_results: bool = True,
    **watching: Unpack[Watching],
) -> Report:
    """Run a batch to its end; what every way to begin one comes to."""
    sinks, on_start = watching.get("sinks", ()), watching.get("on_start")
    _require_sinks(sinks)
    if policy.isolation == "process":
        _require_isolable(function)
    if isinstance(function, Graph):
        require_models(function)
    run = _started(_executor(policy, watching), items, recording, sinks, bind=bind, total=total)
    stored = None if recording is None else recording.stored
    reader = Reader(run, sinks, policy, keep_results=keep_results and recording is None, stored=stored)
    try:
        with kept_beside(None if recording is None else recording.file):
            async with run:
                if on_start is not None:
                    on_start(run)
                await reader.read_all()
        if reader.is_cancelled:
            raise asyncio.CancelledError
        report = reader.report() if recording is None else await asyncio.to_thread(reader.report)
    finally:
        if recording is not None:
            recording.close()
    if reader.error is not None:
        reader.error.report = report
        raise reader.error
    return report


def function_of(graph: Any) -> Callable[[Any], Any]:
    """Give what is called with each item."""
    function = load(graph) if isinstance(graph, str | Path) else adapted(graph)
    if not callable(function):
        raise UsageError(
            f"the graph is a function, a workflow, a workflow's path or a compiled LangGraph graph, not {graph!r:.80}"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"{graph!r:.80} yields; a job has one output: return a list")
    return function


def _executor(policy: Policy, watching: Watching) -> BatchExecutor:
    return BatchExecutor(
        policy,
        on_result=watching.get("on_result"),
        on_progress=watching.get("on_progress"),
        on_alert=watching.get("on_alert"),
        observers=watching.get("observers", ()),
    )


def _started(
    executor: BatchExecutor,
    items: Any,
    recording: Recording | None,
    sinks: Sequence[Sink],
    *,
    bind: Callable[[int, Any], Job] | None,
    total: int | None,
) -> Run:
    if recording is not None:
        return executor.start(items, recorder=recording.begin)
    # An output that no row can hold is that job's failure, instead of the whole batch's when it is written.
    accept = require_json if any(getattr(sink, "holds_rows", False) for sink in sinks) else None
    return executor.start(items, bind=bind, total=total, accept=accept)


def _require_sinks(sinks: Sequence[Sink]) -> None:
    is_series = isinstance(sinks, Sequence) and not isinstance(sinks, str)
    if not is_series or not all(
        hasattr(sink, "write") and hasattr(sink, "commit") and hasattr(sink, "abort") for sink in sinks
    ):
        raise UsageError(f"sinks is a list of sinks, such as [gm.sink('out.jsonl')], not {sinks!r:.80}")


def _binder(
    function: Callable[[Any], Any], id_of: Callable[[Any, int], str | None], effect: Effect, samples: int
) -> Callable[[int, Any], Job]:
    def bind(position: int, item: Any) -> Job:
        if isinstance(item, Job):
            raise no_item()
        found = id_of(item, position)
        return Job(id=str(position) if found is None else found, graph=function, input=item, effect=effect)

    def bind_sample(position: int, item: Any) -> Job:
        number, sample = divmod(position, samples)
        job = bind(number, item)
        return msgspec.structs.replace(job, id=sample_id(job.id, sample + 1), sample=sample + 1)

    return bind if samples == 1 else bind_sample


def _require_isolable(function: Callable[[Any], Any]) -> None:
    if isinstance(function, Graph | AdaptedGraph):
        kind = "workflow" if isinstance(function, Graph) else f"{function.library} graph"
        raise UsageError(f"a {kind} can not run with isolation='process' yet; leave isolation out, or run a function")
    require_importable(function)


def policy_for(
    graph: Callable[[Any], Any],
    policy: Policy | None,
    *,
    concurrency: int | None = None,
    isolation: Isolation | None = None,
) -> Policy:
    """Give the policy with what was said beside it.

    Where nobody has said how many attempts are made at once, they are ten or, if that is more, as many as the graph's widest batch
    runs; but no more than fit in the window.
    """
    policy = require_policy(policy)
    if concurrency is not None:
        policy = replace(policy, concurrency=concurrency)
    if policy.concurrency is None:
        policy = replace(policy, concurrency=_usable(graph, policy))
    return policy if isolation is None else replace(policy, isolation=isolation)


def _usable(graph: Callable[[Any], Any], policy: Policy) -> int:
    widest = max(policy.slots, graph.widest) if isinstance(graph, Graph) else policy.slots
    return widest if policy.window is None else min(widest, policy.window)


class Watching(TypedDict, total=False):
    """Who is told, and what is kept, while a batch runs; see ``abatch``."""

    sinks: Sequence[Sink]
    on_start: Callable[[Run], Any] | None
    on_result: Callable[[Job, Result], Any] | None
    on_progress: Callable[[Progress], Any] | None
    on_alert: Callable[[Alert], Any] | None
    observers: Sequence[Callable[[Event], Any]]


def require_known(function: Callable[..., Any], given: Mapping[str, Any], *, more: str = "") -> None:
    """Refuse keywords that a function of the facade does not take; ``more`` says what one may be, where {} is its name."""
    unknown = [name for name in given if name not in Watching.__annotations__]
    if unknown:
        known = [*(name for name in signature(function).parameters if name != "watching"), *Watching.__annotations__]
        told = "; ".join(_told(name, known) + more.replace("{}", repr(name)) for name in unknown)
        raise UsageError(f"gm.{function.__name__.removeprefix('a')} takes no such keyword: {told}")


def _told(name: str, known: Iterable[str]) -> str:
    if name in (field.name for field in fields(Policy)):
        return f"{name!r} belongs in policy=gm.Policy({name}=…)"
    if name in (field.name for field in fields(Retry)):
        return f"{name!r} belongs in policy=gm.Policy(retry=gm.Retry({name}=…))"
    return f"{name!r}{suggestion(name, known)}"
