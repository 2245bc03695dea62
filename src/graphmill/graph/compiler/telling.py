"""How passes tell a problem: the part of the workflow by name, then what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

from graphmill.core.suggest import suggestion
from graphmill.graph.problems import Problems
from graphmill.graph.spec import At

_MOST_LISTED = 20
_MOST_COMPARED = 500
_MOST_LETTERS = 100


def tell(problems: Problems, at: At, message: str, *, inside: At = (), offset: int = 0) -> None:
    """Tell what is wrong with the part at ``at``; the place is that of ``inside`` it, and ``offset`` where in its text."""
    problems.add((*at, *inside), f"{problems.document.at_text(at)}: {message}", offset=offset)


def listed(names: Sequence[str]) -> str:
    """Name what there is; of many, the first."""
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more or "none"


def nearest(name: str, names: Sequence[str]) -> str:
    """Give ' (did you mean …?)' for the nearest name; of thousands, the first are asked, as each takes its time."""
    return suggestion(name[:_MOST_LETTERS], names[:_MOST_COMPARED])
