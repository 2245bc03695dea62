"""``graphmill score``: score the stored results of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from graphmill import api
from graphmill.cli.foreground import Foreground
from graphmill.cli.options import (
    BudgetUsd,
    By,
    Cluster,
    Concurrency,
    Journal,
    RunName,
)
from graphmill.cli.terminal import AsJson
from graphmill.cli.values import journal_place, open_existing
from graphmill.engine.policy import Policy
from graphmill.journal.journal import Journal as OpenJournal
from graphmill.scoring.scorer import find_scorers


def score(  # noqa: PLR0913  one parameter per option
    run: RunName,
    *,
    scorers: Annotated[
        list[str],
        typer.Option(
            "--scorer",
            "-s",
            metavar="NAME",
            help="A scorer: math, code, exact, numeric, choice, regex?pattern=..., judge?rubric=FILE, or "
            "module:function. Repeatable.",
            show_default=False,
        ),
    ],
    answer: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="The field of the outputs that has the answer.", show_default=False),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="The field of the items that has the right answer.", show_default=False),
    ] = None,
    by: By = None,
    cluster: Cluster = None,
    budget: BudgetUsd = None,
    concurrency: Concurrency = None,
    journal: Journal = None,
    as_json: AsJson = False,
) -> None:
    """Score the stored results of a run.

    A scoring pass is a recorded run named RUN+SCORER: it can be resumed, and to score again scores only what changed.
    No model is called, unless the scorer asks one.

    Example: graphmill score k7f2 --scorer math
    """
    with open_existing(journal) as store:
        found = store.archive.find(run)
        names = ", ".join(scorer.name for scorer in find_scorers(scorers))
        foreground = Foreground(
            title=f"scoring {found.graph_name} with {names}",
            output=None,
            as_json=as_json,
            is_recorded=True,
            journal=journal_place(journal, found.id),
            store=store,
            scores_only=True,
        )
        foreground.perform(
            lambda watching: api.score(
                found,
                scorers,
                answer=answer,
                target=target,
                journal=OpenJournal(store),
                by=by or (),
                cluster=cluster,
                policy=None if budget is None else Policy(budget_usd=budget),
                concurrency=concurrency,
                **watching,
            )
        )
