"""Which run is meant by a name."""

from __future__ import annotations

from collections.abc import Sequence

from graphmill.core.errors import UnknownRunError
from graphmill.core.suggest import suggestion

_MOST_SHOWN = 5


def meant_run(name: str, ids: Sequence[str], *, store: str) -> str:
    """Give the id that is this name or the only one that begins with it."""
    if name in ids:
        return name
    found = [run_id for run_id in ids if name and run_id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownRunError(f"{store} holds no run {name!r:.80}{suggestion(name, ids)}")
    more = ", …" if len(found) > _MOST_SHOWN else ""
    raise UnknownRunError(
        f"{name!r:.80} may be any of {len(found)} runs: {', '.join(found[:_MOST_SHOWN])}{more}; write more of its id"
    )
