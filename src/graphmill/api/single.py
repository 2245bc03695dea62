"""One job's input as a series of items, which a manifest can hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graphmill.core.json import canonical, to_json


@dataclass(frozen=True, slots=True)
class Single:
    """The only item of a run; it goes by the same id whatever it is, so that other inputs are a change and no other item."""

    item: Any

    def __iter__(self) -> Iterator[Any]:
        yield self.item

    def __len__(self) -> int:
        return 1

    def note(self) -> dict[str, Any] | None:
        """Give what a manifest notes of it; None if it is not plain data, and could not be had again."""
        try:
            plain = json.loads(to_json(self.item))
            return {"item": plain} if canonical(plain) == canonical(self.item) else None
        except (TypeError, ValueError, RecursionError):
            return None

    @classmethod
    def noted(cls, note: Mapping[str, Any]) -> Single | None:
        """Give the item that a manifest notes, if it does."""
        return cls(note["item"]) if "item" in note else None
