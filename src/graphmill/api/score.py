"""Score the stored results of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Unpack

from graphmill.api.batch import BatchHooks, require_known, score_run
from graphmill.api.recording import JournalRef, open_briefly
from graphmill.api.rehearsal import scoring_as
from graphmill.api.score_plan import graph_of_pass, plan_pass
from graphmill.core.errors import UsageError
from graphmill.engine.bridge import blocking
from graphmill.engine.policy import Policy
from graphmill.journal.manifest import policy_from
from graphmill.journal.records import RunRecord
from graphmill.report.report import Report, stored_report
from graphmill.scoring.score_pass import ScoredFields
from graphmill.scoring.scorer import find_scorers


async def ascore(  # noqa: PLR0913  one parameter per choice
    run_id: str | RunRecord,
    scorers: Any,
    *,
    answer: str | None = None,
    target: str | None = None,
    by: Sequence[str] | str = (),
    cluster: str | None = None,
    journal: JournalRef | None = None,
    policy: Policy | None = None,
    concurrency: int | None = None,
    **hooks: Unpack[BatchHooks],
) -> Report:
    """Score the stored results of a run, and report on the run with the figures of all its scores.

    ``scorers`` are names ("math", "judge?rubric=strict.md"), "module:function", functions, or a list of these. What
    they take of an item they declare by the names of their parameters: ``answer``, ``target``, ``problem``, ``trace``.
    ``answer`` names the field of the outputs that is compared, by default the first there is of answer, solution,
    response and result; ``target`` the field of the items that is right, by default ground_truth, answer or target.

    Figures ``by`` fields of the items, such as "level", are in the report too. With ``cluster``, a field whose values
    are shared by items that depend on one another, intervals are over these.

    Each scorer is an ordinary recorded run, named ``RUN+SCORER``: it can be resumed, and to score a run again scores
    only what has changed. No model is called, unless the scorer does so.
    """
    require_known(ascore, hooks)
    found = find_scorers(scorers)
    if not found:
        raise UsageError("name a scorer, such as gm.score(run_id, 'math')")
    fields = None if answer is None and target is None else ScoredFields(answer=answer, target=target)
    with open_briefly(journal) as opened:
        run = run_id if isinstance(run_id, RunRecord) else opened.archive.find(run_id)
        with scoring_as(run):
            plans = [
                plan_pass(opened, run, scorer, policy=policy, concurrency=concurrency, fields=fields)
                for scorer in found
            ]
            report = await asyncio.to_thread(stored_report, lambda: open_briefly(journal), run)
            return await score_run(
                opened, run, report, plans, by=(by,) if isinstance(by, str) else by, cluster=cluster, **hooks
            )


score = blocking(ascore)


async def score_again(
    run: RunRecord,
    *,
    graph: Any,
    journal: JournalRef | None,
    policy: Policy | None,
    concurrency: int | None,
    **hooks: Unpack[BatchHooks],
) -> Report:
    """Resume a scoring pass: score what has no score yet, or has changed. ``graph`` is the scorer, if it is passed."""
    return await ascore(
        run.scored_id,
        graph_of_pass(run, graph).scorer,
        journal=journal,
        policy=policy or policy_from(run.policy),
        concurrency=concurrency,
        **hooks,
    )
