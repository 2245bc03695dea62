"""When the machine is too full to start anything new."""

from __future__ import annotations

from dataclasses import dataclass

from graphmill.core.errors import UsageError
from graphmill.engine.latch import Latch
from graphmill.engine.machine import Reading
from graphmill.engine.share import percent, require_share

LOW_WATER = 0.9  # of the high-water mark
_MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The high-water marks of a run, None for off.

    ``memory`` and ``cpu`` are shares of what the process may use; nothing is above a share of 1, so a mark there never pauses.
    ``worker_memory_bytes`` is the most that one worker process may hold.
    """

    memory: float | None = 0.85
    cpu: float | None = None
    worker_memory_bytes: int | None = None

    def __post_init__(self) -> None:
        require_share("memory", self.memory)
        require_share("cpu", self.cpu)
        if self.worker_memory_bytes is not None:
            _require_bytes("worker_memory_bytes", self.worker_memory_bytes)


class Guard:
    """Pauses above a high-water mark and until below the low-water mark, which is 0.9 of it."""

    def __init__(self, guards: Guards) -> None:
        self._memory = Latch(guards.memory, low_share=LOW_WATER)
        self._cpu = Latch(guards.cpu, low_share=LOW_WATER)

    def judge(self, reading: Reading) -> str | None:
        """Give the reason for which nothing new may start now, or None."""
        reasons = [_reason("memory", self._memory, reading.memory), _reason("CPU", self._cpu, reading.cpu)]
        return "; ".join(filter(None, reasons)) or None


def _reason(name: str, latch: Latch, share: float) -> str | None:
    latch.feed(share)
    if not latch.is_on:
        return None
    mark = f"above {percent(latch.high)}" if share > latch.high else f"not yet below {percent(latch.low)}"
    return f"{name} {percent(share)} in use, {mark}"


def _require_bytes(name: str, value: object) -> None:
    if type(value) is not int or value < _MB:
        hint = f"; for {value} MB write {value}_000_000" if type(value) is int and value > 0 else ""
        raise UsageError(f"{name} is a whole number of bytes, at least 1_000_000, not {value!r:.80}{hint}")
