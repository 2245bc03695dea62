"""How fast a run goes that is under way, told from when its results were committed."""

from __future__ import annotations

from graphmill.journal.ports import Archive
from graphmill.journal.records import RunRecord, RunState

_OF_LATE_S = 60.0
_FEWEST = 10


def rate_of(archive: Archive, run: RunRecord, now: float) -> float | None:
    """Tell the results per second: of the last minute if there were some, else since its process began; None if it is not running."""
    if run.state is not RunState.RUNNING or run.owner is None:
        return None
    of_late = max(run.owner.since, now - _OF_LATE_S)
    count = archive.count_since(run, of_late)
    if count < _FEWEST and of_late > run.owner.since:
        of_late = run.owner.since
        count = archive.count_since(run, of_late)
    return count / (now - of_late) if now > of_late else None
