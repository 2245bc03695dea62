"""How full the machine is, as far as this process may use it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from graphmill.engine.cgroup import own_cgroups

_LEAST_APART_S = 0.25  # the system counts CPU time in steps of 10 ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Shares from 0 to 1 of what this process may use: ``memory`` now, ``cpu`` since the last reading (0 at the first)."""

    memory: float
    cpu: float


class Readable(Protocol):
    """What tells how full the machine is."""

    def read(self) -> Reading:
        """Read it now."""


class Machine:
    """Reads the system and the control groups this process was in when the machine was made; the fullest of them counts.

    What can not be read counts as empty.
    """

    def __init__(
        self,
        cgroup_root: Path = Path("/sys/fs/cgroup"),
        proc: Path = Path("/proc"),
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        import psutil  # noqa: PLC0415  slow to import; now rather than at the first reading, which is taken on the loop

        self._psutil = psutil
        self._clock = clock
        self._cgroups = own_cgroups(cgroup_root, proc)
        self._read_at = clock()
        self._last: Reading | None = None
        self._cpu_before: tuple[float, float] | None = None

    def read(self) -> Reading:
        """Take a reading; runs that share this machine, and ask one after the other, share it."""
        now = self._clock()
        elapsed_s = now - self._read_at
        if self._last is not None and elapsed_s < _LEAST_APART_S:
            return self._last
        self._read_at = now
        self._last = Reading(
            memory=_fullest(self._memory(), *(cgroup.memory() for cgroup in self._cgroups)),
            cpu=_fullest(self._cpu(), *(cgroup.cpu(elapsed_s) for cgroup in self._cgroups)),
        )
        return self._last

    def _memory(self) -> float:
        try:
            memory = self._psutil.virtual_memory()
        except OSError:
            return 0.0
        return (memory.total - memory.available) / memory.total

    def _cpu(self) -> float:
        before, self._cpu_before = self._cpu_before, self._cpu_seconds()
        if before is None or self._cpu_before is None:
            return 0.0
        busy_s, passed_s = self._cpu_before[0] - before[0], self._cpu_before[1] - before[1]
        return busy_s / passed_s if passed_s > 0 else 0.0

    def _cpu_seconds(self) -> tuple[float, float] | None:
        """Tell the seconds that all CPUs together were busy, and those that passed."""
        try:
            times = self._psutil.cpu_times()._asdict()
        except OSError:
            return None
        passed_s = sum(
            seconds for name, seconds in times.items() if not name.startswith("guest")
        )  # guest time is part of user time
        return passed_s - times["idle"] - times.get("iowait", 0.0), passed_s


def _fullest(*shares: float) -> float:
    return min(1.0, max(0.0, *shares))  # soft limits can be exceeded, and counters can run back
