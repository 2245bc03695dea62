"""How full the machine is, as far as this process may use it: its memory and CPU, and those of its control groups."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

_MAX_BYTES = 65_536
_NUMBER = re.compile(rb"\A(\d{1,20})\s*\Z")  # "max" is no number, and so no limit
_QUOTA = re.compile(rb"\A(\d{1,20}) (\d{1,20})\s*\Z")
_INACTIVE = re.compile(rb"^inactive_file (\d{1,20})$", re.MULTILINE)
_USAGE = re.compile(rb"^usage_usec (\d{1,20})$", re.MULTILINE)


class Cgroup:
    """One control group: how much of its limits its processes use. A file that can't be read is no limit."""

    def __init__(self, folder: Path) -> None:
        self._memory_limits = (folder / "memory.max", folder / "memory.high")
        self._memory_current = folder / "memory.current"
        self._memory_stat = folder / "memory.stat"
        self._cpu_max = folder / "cpu.max"
        self._cpu_stat = folder / "cpu.stat"
        self._usage_before: list[int] = []

    def memory(self) -> float:
        """Return the share of the memory limit in use, without file cache that can be dropped; 0 without a limit."""
        limits = [limit for path in self._memory_limits for limit in _numbers(path, _NUMBER)]
        if not limits:
            return 0.0
        current, inactive = _numbers(self._memory_current, _NUMBER), _numbers(self._memory_stat, _INACTIVE)
        if current and inactive:
            return (current[0] - inactive[0]) / max(1, min(limits))
        return 0.0

    def cpu(self, elapsed_s: float) -> float:
        """Return the share of the CPU quota used in the last ``elapsed_s``; 0 at first or without a quota."""
        quota = _numbers(self._cpu_max, _QUOTA)
        usage = _numbers(self._cpu_stat, _USAGE) if quota else []
        before, self._usage_before = self._usage_before, usage
        if not (before and usage and all(quota) and elapsed_s > 0):
            return 0.0
        allowed_us, period_us = quota
        return (usage[0] - before[0]) / (elapsed_s * 1e6 * allowed_us / period_us)

    def cores(self) -> int | None:
        """Return how many cores the CPU quota is worth, at least 1; None without a quota."""
        quota = _numbers(self._cpu_max, _QUOTA)
        return max(1, round(quota[0] / quota[1])) if quota and all(quota) else None


@cache
def usable_cores(cgroup_root: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc")) -> int:
    """Return how many cores this process may use, by its affinity and the quotas of its groups."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [cgroup.cores() for cgroup in own_cgroups(cgroup_root, proc)]
    return min([allowed, *(cores for cores in quotas if cores is not None)])


def own_cgroups(root: Path, proc: Path) -> list[Cgroup]:
    """Return the groups from our own up to the root; none without cgroup v2."""
    try:
        found = re.search(r"^0::/(.*)$", (proc / "self" / "cgroup").read_text(errors="replace"), re.MULTILINE)
    except OSError:
        found = None
    if found is None:
        return []
    own = root / found[1]
    return [Cgroup(folder) for folder in (own, *own.parents) if folder.is_relative_to(root)]


def _numbers(path: Path, pattern: re.Pattern[bytes]) -> list[int]:
    try:
        descriptor = os.open(path, os.O_RDONLY)  # half the cost of a file object; the kernel returns it in one piece
        try:
            found = pattern.search(os.read(descriptor, _MAX_BYTES))
        finally:
            os.close(descriptor)
    except (OSError, ValueError):  # ValueError: a path with a null character
        return []
    return [int(number) for number in found.groups()] if found else []


_MIN_INTERVAL_S = 0.25  # the system counts CPU time in steps of 10 ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Shares from 0 to 1 of what this process may use: ``memory`` now, ``cpu`` since the last reading."""

    memory: float
    cpu: float


class Readable(Protocol):
    """Measures how full the machine is."""

    def read(self) -> Reading:
        """Take a reading."""


class Machine:
    """Reads the system and the control groups of this process; the fullest of them counts.

    What can't be read counts as empty.
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
        """Take a reading; runs that share this machine share it."""
        now = self._clock()
        elapsed_s = now - self._read_at
        if self._last is not None and elapsed_s < _MIN_INTERVAL_S:
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
        if passed_s > 0:
            return busy_s / passed_s
        return 0.0

    def _cpu_seconds(self) -> tuple[float, float] | None:
        """Return the seconds that all CPUs together were busy, and those that passed."""
        try:
            times = self._psutil.cpu_times()._asdict()
        except OSError:
            return None
        # Guest time is part of user time.
        passed_s = sum(seconds for name, seconds in times.items() if not name.startswith("guest"))
        return passed_s - times["idle"] - times.get("iowait", 0.0), passed_s


def _fullest(*shares: float) -> float:
    return min(1.0, max(0.0, *shares))  # soft limits can be exceeded, and counters can run back
