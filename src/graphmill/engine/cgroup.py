"""The control groups (version 2) that bound this process on Linux, in a container or out of one."""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOST_BYTES = 65_536
_NUMBER = re.compile(rb"\A(\d{1,20})\s*\Z")  # "max" is no number, and so no limit
_QUOTA = re.compile(rb"\A(\d{1,20}) (\d{1,20})\s*\Z")
_INACTIVE = re.compile(rb"^inactive_file (\d{1,20})$", re.MULTILINE)
_USAGE = re.compile(rb"^usage_usec (\d{1,20})$", re.MULTILINE)


class Cgroup:
    """One control group: how much of its limits is used, by all processes in it. A file that can not be read or understood is no limit."""

    def __init__(self, folder: Path) -> None:
        self._memory_limits = (folder / "memory.max", folder / "memory.high")
        self._memory_current = folder / "memory.current"
        self._memory_stat = folder / "memory.stat"
        self._cpu_max = folder / "cpu.max"
        self._cpu_stat = folder / "cpu.stat"
        self._usage_before: list[int] = []

    def memory(self) -> float:
        """Tell the share of the memory limit in use, file cache that can be dropped left out; 0 without a limit."""
        limits = [limit for path in self._memory_limits for limit in _numbers(path, _NUMBER)]
        if not limits:
            return 0.0
        current, inactive = _numbers(self._memory_current, _NUMBER), _numbers(self._memory_stat, _INACTIVE)
        return (current[0] - inactive[0]) / max(1, min(limits)) if current and inactive else 0.0

    def cpu(self, elapsed_s: float) -> float:
        """Tell the share of the CPU quota used since the last call, which was ``elapsed_s`` ago; 0 at the first or without a quota."""
        quota = _numbers(self._cpu_max, _QUOTA)
        usage = _numbers(self._cpu_stat, _USAGE) if quota else []
        before, self._usage_before = self._usage_before, usage
        if not (before and usage and all(quota) and elapsed_s > 0):
            return 0.0
        allowed_us, period_us = quota
        return (usage[0] - before[0]) / (elapsed_s * 1e6 * allowed_us / period_us)


def own_cgroups(root: Path, proc: Path) -> list[Cgroup]:
    """Find the groups from our own up to the root, which in a container is often our own; none where there is no version 2."""
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
        descriptor = os.open(
            path, os.O_RDONLY
        )  # at half the cost of a file object, and the kernel gives such a file in one piece
        try:
            found = pattern.search(os.read(descriptor, _MOST_BYTES))
        finally:
            os.close(descriptor)
    except (OSError, ValueError):  # ValueError: a path with a null character
        return []
    return [int(number) for number in found.groups()] if found else []
