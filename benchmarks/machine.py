"""Where the figures were measured: the machine and the versions, without names or paths."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

_ROOT = Path(__file__).parent.parent


def machine() -> dict[str, str]:
    """Describe this machine and what runs on it."""
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1024**3
    return {
        "cpu": _cpu_model(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory_gb:.1f} GB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "graphmill": version("graphmill"),
        "commit": _commit(),
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _commit() -> str:
    """Name the commit, and say so if src has been changed since."""
    commit = _git("rev-parse", "--short", "HEAD")
    if commit is None:
        return "unknown"
    return f"{commit} with changes in src" if _git("status", "--porcelain", "--", "src") else commit


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
