"""A batch: a function, a workflow or a LangGraph graph over many items."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from typing import Any, TypedDict, Unpack

import msgspec

from graphmill.api.items import (
    bad_rows_notes,
    id_rule,
    job_among_items,
    prepare_items,
    repeat_samples,
    require_fields,
    require_id,
    require_samples,
)
from graphmill.api.reader import ResultReader
from graphmill.api.recording import (
    JournalRef,
    Recording,
    cache_for_run,
    find_run,
    open_briefly,
    plan_recording,
    with_budget_of,
)
from graphmill.api.rehearsal import Rehearse, collecting_notes, rehearsing
from graphmill.api.score_plan import PassPlan, plan_pass, policy_of_pass
from graphmill.core.errors import UsageError
from graphmill.core.foreign import AdaptedGraph, ForeignGraph, adapt_graph
from graphmill.core.job import Effect, Job, sample_id
from graphmill.core.json import require_json
from graphmill.core.result import Result
from graphmill.core.suggest import suggestion
from graphmill.datasets.sink import Sink
from graphmill.datasets.source import Source
from graphmill.engine.admission import known_length
from graphmill.engine.attempts.processes.importable import require_importable
from graphmill.engine.bridge import blocking, say_if_interrupted
from graphmill.engine.executor import BatchExecutor, Run
from graphmill.engine.monitor.events import Alert, Event
from graphmill.engine.policy import Isolation, Policy, Retry, require_policy
from graphmill.engine.results.statistics import Progress
from graphmill.graph.graph import Graph
from graphmill.graph.models.costs import price_notes, unbounded_calls, unpriced_budgets
from graphmill.graph.models.nodes import require_models
from graphmill.graph.workflow import load
from graphmill.journal.journal import Journal
from graphmill.journal.records import RunRecord
from graphmill.journal.resume import OnChange
from graphmill.report.progress import OnProgress, showing_progress
from graphmill.report.report import Report
from graphmill.report.scores import figures_of_run
from graphmill.scoring.score_pass import ScoringPass
from graphmill.scoring.scorer import Scorer, find_scorers

GraphLike = Callable[[Any], Any] | ForeignGraph | str | Path

log = logging.getLogger("graphmill")


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
    journal: JournalRef | None = None,
    on_change: OnChange = "refuse",
    answers: Mapping[str, Any] | None = None,
    effect: Effect = "repeatable",
    version: str | None = None,
    notes: Mapping[str, Any] | None = None,
    record_prompts: bool | None = None,
    scorers: Any = (),
    rehearse: Rehearse | None = None,
    **hooks: Unpack[BatchHooks],
) -> Report:
    """Run a graph over items and report how it went.

    ``graph`` is a function of one item, async or plain, a loaded workflow or its path, or a compiled LangGraph graph.
    ``items`` is any iterable or async iterable, read lazily; pass ``total`` if it has no length. An item's id is its
    field ``id_field``, else its own ``id``, else its position. ``concurrency`` (default: 10, or the workflow's largest
    ``max_concurrent`` if that is more) and ``isolation`` (None or "process") override the policy's.

    With ``samples`` each item runs that many times, as jobs ``id``, ``id#2``, ``id#3``; models are called each time,
    with the next seed if there is one. ``sinks`` receive every result while the batch runs; with ``keep_results=False``
    the report holds none, and memory does not grow with the number of items.

    With a ``run_id`` or a ``journal`` (a path, or gm.open_journal) the batch is recorded. If that run exists already,
    it is resumed; an item without an id is then known by its content. ``on_change`` says what to do if the graph or an
    item changed: "refuse", "invalidate" (redo what it affects) or "keep" the old results. ``answers`` are answers to
    questions (gm.ask) by item id. A changed ``version`` counts as a changed function; ``notes`` are stored in the
    manifest. With ``effect="unsafe"`` an item never runs twice: if a crash leaves its outcome unknown, it fails as
    ambiguous. With ``record_prompts=False`` the run does not record what is sent to models and what they answer.

    With ``rehearse`` no model is called: True answers from each call's schema, or repeats its prompt; a file of rules,
    ``module:function``, or a function of a ModelRequest answers otherwise.

    ``scorers`` score a recorded batch when it has ended: names such as "math", "module:function", functions; see
    gm.score. The report has their figures in ``scores``.

    ``on_start(run)`` receives the live run, ``on_result(job, result)`` every result, ``on_progress(progress)`` the
    newest figures twice a second, ``on_alert(alert)`` what the policy's alerts find, each of ``observers`` every event.
    With ``progress`` None a bar is shown on a terminal and in a notebook, unless there is an ``on_progress``.

    A failing item is a result, never an exception. A failing source raises SourceError after all items before it are
    finished, a failing sink ExportError, a failing journal JournalError; the exception's ``report`` has everything up
    to there. A batch that is cancelled, for example by Ctrl-C, still commits its sinks.
    """
    require_known(abatch, hooks)
    if isinstance(items, Source):
        await asyncio.to_thread(prepare_items, items, run_id=run_id, journal=journal)
    require_id(items, id_field)
    require_samples(samples)
    function = function_of(graph)
    require_fields(function, items)
    policy = policy_for(function, policy, concurrency=concurrency, isolation=isolation)
    if run_id is not None and (before := await asyncio.to_thread(find_run, journal, run_id)) is not None:
        policy = with_budget_of(before, policy)
    found_scorers = find_scorers(scorers)
    if found_scorers and run_id is None and journal is None:
        raise UsageError("scorers need a recorded batch; pass run_id or journal")
    for scorer in found_scorers:  # before the batch, which may be long and dear
        await scorer.try_out()
    if answers and run_id is None:
        raise UsageError("answers need the run_id of the run whose items wait for them")
    with rehearsing(rehearse):
        recording = None
        if run_id is not None or journal is not None:
            recording = plan_recording(
                journal,
                graph=function,
                items=items,
                policy=policy,
                options={"id_field": id_field, **(notes or {}), **scorers_note(found_scorers)},
                run_id=run_id,
                total=total,
                on_change=on_change,
                answers=answers,
                effect=effect,
                version=version,
                samples=samples,
                record_prompts=record_prompts,
            )
        given = items
        bind = _binder(function, id_rule(items, id_field), effect, samples)
        if samples > 1:
            count = known_length(items) if total is None else total
            items = repeat_samples(items, samples)
            if count is not None:
                total = count * samples
        report = await execute(
            function, items, policy, recording, bind=bind, total=total, keep_results=keep_results, **hooks
        )
        report = replace(report, samples=samples, notes=(*report.notes, *bad_rows_notes(given)))
        place = None if recording is None else recording.place
        return await score_after(report, found_scorers, place, budget_usd=policy.budget_usd, **hooks)


batch = blocking(abatch)


def scorers_note(scorers: Sequence[Scorer]) -> dict[str, Any]:
    """Return what a manifest records of the scorers of a batch, so that a resume scores it too."""
    specs = [scorer.spec for scorer in scorers if scorer.spec is not None]
    return {"scorers": specs} if specs else {}


async def score_after(
    report: Report,
    scorers: Sequence[Scorer],
    journal: JournalRef | None,
    *,
    budget_usd: float | None,
    **hooks: Unpack[BatchHooks],
) -> Report:
    """Score a batch that has ended, with what is left of its budget; one that was stopped is scored when resumed.

    ``on_result`` is for the batch alone; ``on_start`` receives each scoring pass too, so that it can be stopped.
    """
    if not scorers or report.run_id is None or report.stopped is not None:
        return report
    with open_briefly(journal) as opened:
        run = opened.archive.find(report.run_id)
        plans = (
            plan_pass(opened, run, scorer, policy=policy_of_pass(opened.archive, run, scorer, budget_usd))
            for scorer in scorers  # one after the other: each has what those before it have left
        )
        return await score_run(opened, run, report, plans, **hooks | {"on_result": None})


async def score_run(
    journal: Journal,
    run: RunRecord,
    report: Report,
    plans: Iterable[PassPlan],
    *,
    by: Sequence[str] = (),
    cluster: str | None = None,
    **hooks: Unpack[BatchHooks],
) -> Report:
    """Execute scoring passes over a run, one after the other; return its report with theirs and the figures."""
    passes = []
    for plan in plans:
        try:
            await plan.graph.scorer.open()
            passes.append(
                await execute(plan.graph, [], plan.policy, plan.recording, **hooks | {"sinks": (), "deliver": None})
            )
        finally:
            await plan.graph.scorer.close()
        if passes[-1].stopped is not None:
            break
    figures = await asyncio.to_thread(figures_of_run, journal.archive, run, by=by, cluster=cluster)
    return replace(report, passes=tuple(passes), scores=tuple(figures))


async def execute(
    function: Callable[[Any], Any],
    items: Any,
    policy: Policy,
    recording: Recording | None,
    *,
    bind: Callable[[int, Any], Job] | None = None,
    total: int | None = None,
    keep_results: bool = True,
    **hooks: Unpack[BatchHooks],
) -> Report:
    """Run a batch to its end; batch, run, resume and retry all end up here."""
    sinks = hooks.get("sinks", ())
    _require_sinks(sinks)
    if policy.isolation == "process":
        _require_isolable(function)
    if policy.guards.worker_memory_bytes is not None and not _uses_workers(function, policy):
        raise UsageError(
            "worker_memory_bytes guards worker processes, and there are none; add isolation='process' or leave it out"
        )
    notes: tuple[str, ...] = ()
    if isinstance(function, Graph):
        require_models(function)
        require_costs(function, policy)
        notes = price_notes(function)
    elif policy.budget_usd is not None and not isinstance(function, ScoringPass):
        log.warning(_UNBOUNDED_NOTE)
    with showing_progress(hooks.get("progress"), hooks.get("on_progress")) as on_progress:
        executor = _executor(policy, hooks, on_progress)
        if recording is not None:
            run = executor.start(items, recorder=recording.begin)
            return await _execute_recorded(run, recording, policy, notes, hooks)
        # An output that no row can hold fails that job, instead of the whole batch when the row is written.
        accept = require_json if any(getattr(sink, "holds_rows", False) for sink in sinks) else None
        run = executor.start(items, bind=bind, total=total, accept=accept)
        reader = ResultReader(run, sinks, policy, keep_results=keep_results, deliver=hooks.get("deliver"))
        reader.notes += notes
        with cache_for_run(None):
            await _read(run, reader, hooks.get("on_start"))
        return _checked(reader, reader.report())


async def _execute_recorded(
    run: Run, recording: Recording, policy: Policy, notes: Iterable[str], hooks: BatchHooks
) -> Report:
    reader = ResultReader(
        run,
        hooks.get("sinks", ()),
        policy,
        keep_results=False,
        stored=recording.stored,
        deliver=hooks.get("deliver"),
    )
    reader.notes += notes
    try:
        with cache_for_run(recording.file):
            await _read(run, reader, hooks.get("on_start"))
        report = await asyncio.to_thread(reader.report)
    except asyncio.CancelledError:
        if run.is_entered:
            say_if_interrupted(recording.how_to_continue(run.id))
        raise
    finally:
        recording.close()
    return _checked(reader, report)


async def _read(run: Run, reader: ResultReader, on_start: Callable[[Run], Any] | None) -> None:
    with collecting_notes(reader.notes):
        async with run:
            if on_start is not None:
                on_start(run)
            await reader.read_all()
    if reader.is_cancelled:
        raise asyncio.CancelledError


def _checked(reader: ResultReader, report: Report) -> Report:
    if reader.error is not None:
        reader.error.report = report
        raise reader.error
    return report


def function_of(graph: Any) -> Callable[[Any], Any]:
    """Return the function that is called with each item."""
    function = load(graph) if isinstance(graph, str | Path) else adapt_graph(graph)
    if not callable(function):
        raise UsageError(
            f"graph must be a function, a workflow, its path or a compiled LangGraph graph, got {graph!r:.80}"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"{graph!r:.80} is a generator; a job has one output, so return a list")
    return function


def _executor(policy: Policy, hooks: BatchHooks, on_progress: OnProgress) -> BatchExecutor:
    return BatchExecutor(
        policy,
        on_result=hooks.get("on_result"),
        on_progress=on_progress,
        on_alert=hooks.get("on_alert"),
        observers=hooks.get("observers", ()),
    )


def _require_sinks(sinks: Sequence[Sink]) -> None:
    is_list = isinstance(sinks, Sequence) and not isinstance(sinks, str)
    if not is_list or not all(hasattr(sink, name) for sink in sinks for name in ("write", "commit", "abort")):
        raise UsageError(f"sinks must be a list of sinks such as [gm.sink('out.jsonl')], got {sinks!r:.80}")


def _binder(
    function: Callable[[Any], Any], id_of: Callable[[Any, int], str | None], effect: Effect, samples: int
) -> Callable[[int, Any], Job]:
    def bind(position: int, item: Any) -> Job:
        if isinstance(item, Job):
            raise job_among_items()
        found = id_of(item, position)
        return Job(id=str(position) if found is None else found, graph=function, input=item, effect=effect)

    def bind_sample(position: int, item: Any) -> Job:
        number, sample = divmod(position, samples)
        job = bind(number, item)
        return msgspec.structs.replace(job, id=sample_id(job.id, sample + 1), sample=sample + 1)

    if samples == 1:
        return bind
    return bind_sample


def _uses_workers(function: Callable[[Any], Any], policy: Policy) -> bool:
    return policy.isolation == "process" or (isinstance(function, Graph) and function.uses_workers)


def require_costs(graph: Graph, policy: Policy) -> None:
    """Refuse budgets that could not be kept to, before the first item."""
    problems = unpriced_budgets(graph)
    if policy.budget_usd is not None:
        problems += unbounded_calls(graph)
    if problems:
        raise UsageError("\n".join(problems))


def _require_isolable(function: Callable[[Any], Any]) -> None:
    if isinstance(function, Graph | AdaptedGraph):
        kind = "workflow" if isinstance(function, Graph) else f"{function.library} graph"
        raise UsageError(f"a {kind} cannot run with isolation='process'; leave isolation out, or run a function")
    require_importable(function)


def policy_for(
    graph: Callable[[Any], Any],
    policy: Policy | None,
    *,
    concurrency: int | None = None,
    isolation: Isolation | None = None,
) -> Policy:
    """Return the policy with the overrides.

    The default concurrency is ten or, if that is more, that of the graph's widest batch; never more than the window.
    """
    policy = require_policy(policy)
    if concurrency is not None:
        policy = replace(policy, concurrency=concurrency)
    if isolation is not None:
        policy = replace(policy, isolation=isolation)
    if policy.concurrency is not None:
        return policy
    slots = policy.slots
    if isinstance(graph, Graph):
        slots = max(slots, graph.widest)
    if policy.window is not None:
        slots = min(slots, policy.window)
    return replace(policy, concurrency=slots)


_UNBOUNDED_NOTE = (
    "the budget cannot limit calls made with other clients in advance; it counts what they report. gm.complete calls "
    "are limited"
)


class BatchHooks(TypedDict, total=False):
    """Sinks and callbacks of a batch; see ``abatch``. ``deliver`` is awaited with each result, before more are read."""

    progress: bool | None
    deliver: Callable[[Result], Awaitable[None]] | None
    sinks: Sequence[Sink]
    on_start: Callable[[Run], Any] | None
    on_result: Callable[[Job, Result], Any] | None
    on_progress: Callable[[Progress], Any] | None
    on_alert: Callable[[Alert], Any] | None
    observers: Sequence[Callable[[Event], Any]]


def require_known(function: Callable[..., Any], given: Mapping[str, Any], *, more: str = "") -> None:
    """Refuse unknown keywords; ``more`` is a hint in which {} is the keyword."""
    unknown = [name for name in given if name not in BatchHooks.__annotations__]
    if unknown:
        known = [*(name for name in signature(function).parameters if name != "hooks"), *BatchHooks.__annotations__]
        hints = "; ".join(_hint(name, known) + more.replace("{}", repr(name)) for name in unknown)
        raise UsageError(f"gm.{function.__name__.removeprefix('a')} has no such keyword: {hints}")


def _hint(name: str, known: Iterable[str]) -> str:
    if name in (field.name for field in fields(Policy)):
        return f"{name!r} belongs in policy=gm.Policy({name}=…)"
    if name in (field.name for field in fields(Retry)):
        return f"{name!r} belongs in policy=gm.Policy(retry=gm.Retry({name}=…))"
    return f"{name!r}{suggestion(name, known)}"
