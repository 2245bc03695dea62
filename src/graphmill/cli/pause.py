"""``graphmill pause``: let a run start nothing new."""

from __future__ import annotations

from graphmill.cli.answer import tell
from graphmill.cli.asking import ask, not_answered, require_live, stands
from graphmill.cli.journal import Journal, RunName, opened
from graphmill.journal.records import Request, RunState


def pause(run: RunName, *, journal: Journal = None) -> None:
    """Let a run start nothing new until it is resumed.

    Example: graphmill pause k7f2
    """
    with opened(journal) as store:
        found = store.archive.find(run)
        require_live(found, "only a run that is under way can be paused")
        now = ask(store.archive, found, Request("pause"), lambda now: now.state is not RunState.RUNNING)
    tell([not_answered(found) if now is None else stands(now)])
