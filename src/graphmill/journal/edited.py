"""The items that are not what they were when their results were recorded, and how a run is refused for them."""

from __future__ import annotations

from graphmill.core.errors import ChangedError

_MOST_NAMED = 5


class Edited:
    """Counts them and keeps the names of the first."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, name: str, position: int) -> None:
        """Note one."""
        self._count += 1
        if len(self._first) < _MOST_NAMED:
            self._first.append(f"{name!r:.80} (position {position})")

    def refusal(self) -> ChangedError:
        """Name them all, or the first and how many more there are; and what can be done."""
        more = f" and {self._count - len(self._first):,} more" if self._count > len(self._first) else ""
        named = f"{', '.join(self._first)}{more}"
        if self._count == 1:
            said = f"the item {named} is not what it was when its result was recorded"
            return ChangedError(
                f"{said}; go on with --on-change invalidate (do it again) or --on-change keep (keep its old result)"
            )
        said = f"the items {named} are not what they were when their results were recorded"
        return ChangedError(
            f"{said}; go on with --on-change invalidate (do them again) or --on-change keep (keep their old results)"
        )
