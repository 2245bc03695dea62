"""Resume a recorded run, or run its failed items again, with the graph, items and policy its manifest names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Unpack

from graphmill.api.batch import BatchHooks, GraphLike, execute, function_of, policy_for, require_known, score_after
from graphmill.api.items import Single, bad_rows_notes, prepare_items, require_fields, require_id
from graphmill.api.model_changes import ModelChange, ModelParams, change_models
from graphmill.api.recording import JournalRef, open_briefly, plan_recording, plan_retry, with_budget_of
from graphmill.api.rehearsal import rehearsing_as
from graphmill.api.score import score_again
from graphmill.api.score_plan import graph_of_pass
from graphmill.core.errors import UsageError
from graphmill.core.result import Kind
from graphmill.core.suggest import suggestion
from graphmill.datasets.source import Source, noted_source
from graphmill.engine.bridge import blocking
from graphmill.engine.policy import Isolation, Policy
from graphmill.graph.models.models import Choices
from graphmill.graph.named import find_named
from graphmill.graph.workflow import load, load_data
from graphmill.journal.journal import Selection
from graphmill.journal.manifest import policy_from
from graphmill.journal.records import RunRecord
from graphmill.journal.resume import OnChange
from graphmill.report.report import Report
from graphmill.scoring.scorer import Scorer, find_scorers


async def aresume(  # noqa: PLR0913  one parameter per choice
    run_id: str | RunRecord,
    *,
    answers: Mapping[str, Any] | None = None,
    graph: GraphLike | None = None,
    items: Iterable[Any] | AsyncIterable[Any] | None = None,
    journal: JournalRef | None = None,
    policy: Policy | None = None,
    concurrency: int | None = None,
    isolation: Isolation | None = None,
    total: int | None = None,
    models: Iterable[str] = (),
    temperature: float | None = None,
    max_tokens: int | None = None,
    on_change: OnChange | None = None,
    notes: Mapping[str, Any] | None = None,
    **hooks: Unpack[BatchHooks],
) -> Report:
    """Resume a run: run what has no result yet, and report on the whole run.

    Graph, items and policy are loaded again as the run's manifest names them; a lambda or a generator cannot be, and
    must be passed. ``run_id`` may be the unambiguous beginning of an id, or the run's record in an open ``journal``.

    ``answers`` are answers to questions by item id; an item with several open questions takes a mapping by their paths.
    They are stored before the first job starts. Items without an answer keep waiting.

    ``models`` are models to continue with: ``NAME`` for all nodes of a workflow, or ``ROLE=NAME``; ``temperature`` and
    ``max_tokens`` are their params. The run keeps these choices. Finished results then stay unless ``on_change`` says
    otherwise; without a choice of models, a changed graph or item is refused. ``notes`` are added to the manifest.
    """
    require_known(aresume, hooks)
    run = _found(journal, run_id)
    if run.is_pass:
        return await score_again(run, graph=graph, journal=journal, policy=policy, concurrency=concurrency, **hooks)
    options = run.options
    series = source_of(run) if items is None else items
    if isinstance(series, Source):
        await asyncio.to_thread(prepare_items, series, run_id=None, journal=None)
    with rehearsing_as(run):
        if graph is None:
            graph = graph_of(run)
        function = function_of(graph)
        other = _model_change(run, function, models, on_change, temperature=temperature, max_tokens=max_tokens)
        if other is not None:
            function = other.graph
        if items is not None:  # maybe another file, all of whose items would fail
            require_id(items, options.get("id_field"))
            require_fields(function, items)
        given = with_budget_of(run, policy or policy_from(run.policy))
        rules = policy_for(function, given, concurrency=concurrency, isolation=isolation)
        recording = plan_recording(
            journal,
            graph=function,
            items=series,
            policy=rules,
            options={**options, **(notes or {})},
            run_id=run.id,
            run=run,
            total=total,
            on_change=on_change or "refuse",
            other=other,
            answers=answers,
            effect=options.get("effect", "repeatable"),
            version=options.get("version"),
            is_elsewhere=True,
            samples=run.samples,
        )
        scorers = scorers_of(run)
        report = await execute(function, series, rules, recording, **hooks)
        report = replace(report, notes=(*report.notes, *bad_rows_notes(series)))
        return await score_after(report, scorers, journal, budget_usd=rules.budget_usd, **hooks)


async def aretry(  # noqa: PLR0913
    run_id: str | RunRecord,
    *,
    items: Iterable[str] | None = None,
    kinds: Iterable[str] | None = None,
    partial: bool = False,
    resample: bool = False,
    graph: GraphLike | None = None,
    journal: JournalRef | None = None,
    policy: Policy | None = None,
    concurrency: int | None = None,
    isolation: Isolation | None = None,
    models: Iterable[str] = (),
    temperature: float | None = None,
    max_tokens: int | None = None,
    on_change: OnChange | None = None,
    notes: Mapping[str, Any] | None = None,
    **hooks: Unpack[BatchHooks],
) -> Report:
    """Run the failed items of a run again, all or those of these ids or kinds, and report on the whole run.

    A refusal, or an answer that was cut or did not fit, is an answer too: only with ``resample`` the model is asked for
    another. Such items are marked as ``resampled``.

    With ``partial`` the partial ones run again, and failed ones only if ``kinds`` names them. Of a partial item the
    steps that failed run again or, if none did, all of it does.

    They get their recorded inputs, and attempts count from 1 again. ``models``, ``temperature`` and ``max_tokens`` are
    as for ``resume``, and so are ``notes``. If something else in the graph changed, pass ``on_change="keep"``: results
    that succeeded stay.
    """
    require_known(aretry, hooks)
    if on_change not in (None, "refuse", "keep"):
        raise UsageError(
            f"on_change must be 'refuse' or 'keep' for retry, got {on_change!r:.80}; to redo results, resume with "
            "'invalidate'"
        )
    run = _found(journal, run_id)
    options = run.options
    with rehearsing_as(run):
        if run.is_pass:
            graph = graph_of_pass(run, graph)
        elif graph is None:
            graph = graph_of(run, f"gm.retry({run.id!r}, graph=function)")
        function = function_of(graph)
        words: Mapping[str, str] = {}
        other = _model_change(run, function, models, on_change, temperature=temperature, max_tokens=max_tokens)
        if other is not None:
            function, on_change, words = other.graph, other.on_change, other.words
        given = with_budget_of(run, policy or policy_from(run.policy))
        rules = policy_for(function, given, concurrency=concurrency, isolation=isolation)
        recording = plan_retry(
            journal,
            graph=function,
            policy=rules,
            run_id=run.id,
            selection=Selection(
                items=None if items is None else frozenset(items),
                kinds=_kinds(kinds),
                partial=partial,
                resample=resample,
            ),
            on_change=on_change or "refuse",
            words=words,
            effect=options.get("effect", "repeatable"),
            version=options.get("version"),
            options={**options, **(notes or {})},
        )
        scorers = scorers_of(run)
        report = await execute(function, [], rules, recording, **hooks)
        if run.is_pass:
            return await score_again(run, graph=graph, journal=journal, policy=policy, concurrency=concurrency, **hooks)
        return await score_after(report, scorers, journal, budget_usd=rules.budget_usd, **hooks)


resume = blocking(aresume)
retry = blocking(aretry)


def scorers_of(run: RunRecord) -> tuple[Scorer, ...]:
    """Return the scorers that a batch was started with."""
    return find_scorers(run.options.get("scorers", ()))


def graph_of(run: RunRecord, by: str = "") -> Callable[[Any], Any]:
    """Load a run's graph again; ``by`` is the call to suggest if only its program can continue the run."""
    if run.is_pass:
        return graph_of_pass(run)
    note = run.graph
    if "graph" not in run.manifest:
        raise _of_jobs(run)
    if note.get("path") or note.get("written"):
        graph = load_data(note["written"]) if not note.get("path") else load(note["path"])
        return graph.with_inputs(note.get("given", {})).with_choices(Choices.from_json(note.get("choices", {})))
    if note.get("function"):
        try:
            return function_of(find_named(note["function"]))
        except ValueError as error:
            raise UsageError(f"the {note.get('kind', 'function')} of run {run.id} cannot be loaded: {error}") from error
    by = by or f"gm.batch(function, items, run_id={run.id!r})"
    raise UsageError(
        f"the function {note.get('name') or 'of jobs'} of run {run.id} was defined in the main program or inside "
        f"another function, so it cannot be found by its name; move it to a module, or call {by} in the program that "
        "has it"
    )


def source_of(run: RunRecord) -> Source | Single:
    """Open a run's items again."""
    note = run.source
    if (single := Single.noted(note)) is not None:
        return single
    if "graph" not in run.manifest:
        raise _of_jobs(run)
    if (items := noted_source(note)) is None:
        raise UsageError(
            f"cannot reread the items of run {run.id} (they came from stdin or Python); pass --source FILE (items=… in "
            f"Python), or call gm.batch(function, items, run_id={run.id!r})"
        )
    return items


def _of_jobs(run: RunRecord) -> UsageError:
    return UsageError(
        f"run {run.id} was started with BatchExecutor.start(); resume it from that program with "
        f"BatchExecutor(journal=…).start(jobs, run_id={run.id!r})"
    )


def _found(journal: JournalRef | None, run_id: str | RunRecord) -> RunRecord:
    if isinstance(run_id, RunRecord):
        return run_id
    with open_briefly(journal) as opened:
        return opened.archive.find(run_id)


def _model_change(
    run: RunRecord,
    graph: Callable[[Any], Any],
    models: Iterable[str],
    on_change: OnChange | None,
    **params: Unpack[ModelParams],
) -> ModelChange | None:
    if not models and all(value is None for value in params.values()):
        return None
    if isinstance(models, str):
        models = [models]
    return change_models(run, graph, models, on_change, **params)


def _kinds(kinds: Iterable[str] | None) -> frozenset[Kind] | None:
    if kinds is None:
        return None
    named = frozenset(kinds)
    for kind in named:
        if kind not in set(Kind):
            raise UsageError(f"no kind {kind!r:.80}{suggestion(str(kind), Kind)}; kinds are {', '.join(Kind)}")
    return frozenset(map(Kind, named))
