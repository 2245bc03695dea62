"""One job: a function or a workflow over one input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from graphmill.api.batch import GraphLike, Watching, abatch, function_of, require_known
from graphmill.api.items import Single
from graphmill.api.recording import Place
from graphmill.core.job import JOB_ID, Effect
from graphmill.core.result import Result, Status, StopReason
from graphmill.engine.bridge import blocking
from graphmill.engine.policy import Isolation, Policy
from graphmill.graph.graph import Graph
from graphmill.graph.inputs import require_inputs
from graphmill.journal.intake import OnChange
from graphmill.report.report import Report


async def arun(  # noqa: PLR0913  one parameter per choice
    graph: GraphLike,
    inputs: Any = None,
    *,
    policy: Policy | None = None,
    concurrency: int | None = None,
    isolation: Isolation | None = None,
    run_id: str | None = None,
    journal: Place | None = None,
    on_change: OnChange = "refuse",
    effect: Effect = "repeatable",
    version: str | None = None,
    notes: Mapping[str, Any] | None = None,
    **watching: Unpack[Watching],
) -> Result:
    """Run one job and give its result.

    ``graph`` is a loaded workflow, the path of one, a function of one value, or a compiled LangGraph graph. ``inputs`` are a
    workflow's by name, or the value of the only one that is required; UsageError names all that is wrong with them before anything runs.

    A failed job gives a result with its error, it does not raise. With a ``run_id`` or a ``journal`` it is recorded, and goes on
    where it was if that run is there already; one that is done is not run again. The rest is as for ``gm.batch``.
    """
    require_known(arun, watching, more=" (the inputs are one mapping: gm.run(graph, {{}: …}))")
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
        **watching,
    )
    return only_result(report, item)


run = blocking(arun)


def single(function: Callable[[Any], Any], inputs: Any) -> Single:
    """Give the input of one job as what a batch runs over; UsageError if it is none for this graph."""
    if not isinstance(function, Graph):
        return Single(inputs)
    given = {} if inputs is None else inputs
    require_inputs(function, given)
    return Single(given)


def only_result(report: Report, items: Single) -> Result:
    """Give the result of the one job of a run; one that was not done is paused or cancelled."""
    for result in report.results():
        if result.job_id == JOB_ID:
            return result
    status = Status.CANCELLED if report.stopped is StopReason.CANCELLED else Status.PAUSED
    return Result(job_id=JOB_ID, position=0, status=status, input=items.item)
