"""``graphmill limits``: change how many attempts a run makes at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from graphmill.cli.answer import tell
from graphmill.cli.asking import ask, not_answered, require_live, stands
from graphmill.cli.journal import Journal, RunName, opened
from graphmill.journal.records import Request, RunRecord


def limits(
    run: RunName,
    *,
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-c", metavar="N", help="Attempts at once.", min=1, show_default=False)
    ],
    journal: Journal = None,
) -> None:
    """Change how many attempts a run makes at once.

    Example: graphmill limits k7f2 --concurrency 40
    """
    with opened(journal) as store:
        found = store.archive.find(run)
        require_live(found, "only a run that is under way has limits to change")
        done = ask(
            store.archive, found, Request("limit", str(concurrency)), lambda now: _concurrency(now) == concurrency
        )
    if done is None:
        tell([not_answered(found)])
    else:
        tell([f"{stands(done)}, with concurrency {concurrency}" if done.state.is_live else stands(done)])


def _concurrency(run: RunRecord) -> object:
    """Read from the manifest what the run has noted there."""
    policy = run.manifest.get("policy")
    return (policy if isinstance(policy, Mapping) else run.manifest).get("concurrency")
