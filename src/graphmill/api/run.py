"""One job: a function or a workflow over one input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from graphmill.api.batch import BatchHooks, GraphLike, abatch, function_of, require_known
from graphmill.api.items import Single
from graphmill.api.recording import JournalRef
from graphmill.api.rehearsal import Rehearse
from graphmill.core.job import JOB_ID, Effect
from graphmill.core.result import Result, Status, StopReason
from graphmill.engine.bridge import blocking
from graphmill.engine.policy import Isolation, Policy
from graphmill.graph.graph import Graph
from graphmill.graph.inputs import require_inputs
from graphmill.journal.resume import OnChange
from graphmill.report.report import Report


async def arun(  # noqa: PLR0913  one parameter per choice
    graph: GraphLike,
    inputs: Any = None,
    *,
    policy: Policy | None = None,
    concurrency: int | None = None,
    isolation: Isolation | None = None,
    run_id: str | None = None,
    journal: JournalRef | None = None,
    on_change: OnChange = "refuse",
    effect: Effect = "repeatable",
    version: str | None = None,
    notes: Mapping[str, Any] | None = None,
    record_prompts: bool | None = None,
    rehearse: Rehearse | None = None,
    **hooks: Unpack[BatchHooks],
) -> Result:
    """Run one job and return its result.

    ``graph`` is a loaded workflow or its path, a function of one value, or a compiled LangGraph graph. ``inputs`` are a
    workflow's inputs by name, or the value of its only required one; if they are wrong, UsageError lists all problems
    before anything runs.

    A failed job returns a result with its error; it does not raise. With a ``run_id`` or a ``journal`` it is recorded:
    an unfinished run is resumed, a finished one returns its result again. Everything else is as for ``gm.batch``.
    """
    require_known(arun, hooks, more=" (the inputs are one mapping: gm.run(graph, {{}: …}))")
    function = function_of(graph)
    item = single(function, inputs)
    report = await abatch(
        function,
        item,
        policy=policy,
        concurrency=concurrency,
        isolation=isolation,
        run_id=run_id,
        journal=journal,
        on_change=on_change,
        effect=effect,
        version=version,
        notes=notes,
        record_prompts=record_prompts,
        rehearse=rehearse,
        **hooks,
    )
    return only_result(report, item)


run = blocking(arun)


def single(function: Callable[[Any], Any], inputs: Any) -> Single:
    """Return the input of one job as the items of a batch; UsageError if the graph cannot take it."""
    if not isinstance(function, Graph):
        return Single(inputs)
    if inputs is None:
        inputs = {}
    require_inputs(function, inputs)
    return Single(inputs)


def only_result(report: Report, items: Single) -> Result:
    """Return the result of a run of one job; without one it is pending or cancelled."""
    for result in report.results():
        if result.job_id == JOB_ID:
            return result
    status = Status.CANCELLED if report.stopped is StopReason.CANCELLED else Status.PENDING
    return Result(job_id=JOB_ID, position=0, status=status, input=items.item)
