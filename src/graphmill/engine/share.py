"""The share of hits among the latest events, and how shares are checked and told."""

from __future__ import annotations

from graphmill.core.errors import UsageError


class Share:
    """The share of hits among about the last ``over`` events: their plain mean at first, then each new one fades the older ones.

    ``count`` is how many events stand behind ``value``, at most ``over``.
    """

    __slots__ = ("_over", "count", "value")

    def __init__(self, over: int = 100) -> None:
        self._over = over
        self.count = 0
        self.value = 0.0

    def add(self, *, hit: bool) -> None:
        """Count one event."""
        if self.count < self._over:
            self.count += 1
        self.value += (hit - self.value) / self.count


def require_share(name: str, value: object) -> None:
    """Refuse what is neither None nor a share above 0 and up to 1; a bool is not a number here."""
    if value is None:
        return
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if not 0 < number <= 1:
        hint = f"; for {number:g} % write {number / 100:g}" if 1 < number <= 100 else ""
        raise UsageError(f"{name} is a share above 0 and up to 1, or None for off, not {value!r:.80}{hint}")


def percent(share: float) -> str:
    """Tell a share in words: ``62.5 %``."""
    return f"{100 * share:.3g} %"
