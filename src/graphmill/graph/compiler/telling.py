"""How passes tell a problem: the part of the workflow by name, then what is wrong with it."""

from __future__ import annotations

from graphmill.graph.problems import Problems
from graphmill.graph.spec import At


def tell(problems: Problems, at: At, message: str, *, inside: At = (), offset: int = 0) -> None:
    """Tell what is wrong with the part at ``at``; the place is that of ``inside`` it, and ``offset`` where in its text."""
    problems.add((*at, *inside), f"{problems.document.at_text(at)}: {message}", offset=offset)
