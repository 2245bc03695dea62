"""What a node has raised, with its place in our words."""

from __future__ import annotations

import re

_NOTE = re.compile(r"During task with name '(.*)' and id '[^']*'", re.DOTALL)


def place(error: BaseException) -> None:
    """Say in which node an error was raised, without LangGraph's id of it, which is another for every item."""
    if notes := getattr(error, "__notes__", None):
        error.__notes__ = list(dict.fromkeys(_NOTE.sub(r"in the graph's node '\1'", str(note)) for note in notes))
