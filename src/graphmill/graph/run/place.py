"""Where in a job a node is run: what its templates see, and the path that tells its steps from all others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphmill.engine.recorder import Pages
from graphmill.graph.run.meter import Meter

if TYPE_CHECKING:
    from graphmill.graph.models.models import Models


class Room:
    """Where a job puts what is too much for memory: None before it has asked, and where there is none.

    Once it ``is_used``, some of what templates find are sequences that are not in memory.
    """

    __slots__ = ("is_asked", "is_used", "pages")

    def __init__(self) -> None:
        self.pages: Pages | None = None
        self.is_asked = False
        self.is_used = False


class Place:
    """``scope`` maps the names that templates begin with; ``prefix`` is the path of what this is inside of.

    ``room`` and ``flags`` are the job's; ``root`` is the folder of the workflow file, ``models`` are those that its nodes ask.
    """

    __slots__ = ("flags", "meter", "models", "prefix", "room", "root", "scope")

    def __init__(
        self,
        scope: dict[str, Any],
        prefix: str,
        meter: Meter | None,
        flags: set[str],
        room: Room,
        root: Path | None,
        models: Models | None,
    ) -> None:
        self.scope = scope
        self.prefix = prefix
        self.meter = meter
        self.flags = flags
        self.room = room
        self.root = root
        self.models = models

    def path_of(self, name: str) -> str:
        """Give the path of a node here."""
        return f"{self.prefix}{name}"

    def within(self, names: Mapping[str, Any], *, meter: Meter | None = None) -> Place:
        """Give the same place with more names in sight."""
        return Place(
            {**self.scope, **names}, self.prefix, meter or self.meter, self.flags, self.room, self.root, self.models
        )
