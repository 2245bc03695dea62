"""Faults of the disk: which call fails, how, and what came of it. ``shim.c`` does it inside the command."""

import errno
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

KINDS = ("write", "sync", "rename", "truncate", "unlink")
KILLS = ("before", "after", "torn")
_TALLY = struct.Struct(f"{len(KINDS)}QQ512s")


def missing():
    """Tell what this machine lacks to preload a library; empty if nothing."""
    if sys.platform != "linux":
        return "calls are counted by a library that only Linux preloads"
    return "" if shutil.which("cc") else "there is no cc to compile tests/faults/shim.c"


def compiled(folder):
    """Compile the library; give its path."""
    library = Path(folder) / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    return library


@dataclass(frozen=True, kw_only=True)
class Fault:
    """At the ``at``-th call of a kind an error, a death, or, by default, nothing; ``stays`` if every later call fails too."""

    kind: str = "write"
    at: int = 0
    action: str = "ENOSPC"
    stays: bool = False

    @property
    def is_kill(self):
        return self.action in KILLS

    def __str__(self):
        return f"{self.kind}-{self.at}-{self.action}{'-stays' if self.stays else ''}"


class Tally(NamedTuple):
    """How many calls of each kind there were, how many were hit, and what the first of these was."""

    counts: dict
    fired: int
    hit: str


class Shim:
    """The library, preloaded with one fault over some folders; ``tally`` can be read at any time, after any death."""

    def __init__(self, library, folder, *, under, fault):
        self._tally = Path(folder) / "tally"
        self._tally.write_bytes(bytes(_TALLY.size))
        action = fault.action if fault.is_kill or fault.action == "short" else str(getattr(errno, fault.action))
        self.variables = {
            "LD_PRELOAD": str(library),
            "FAULT_TALLY": str(self._tally),
            "FAULT_UNDER": ":".join(str(Path(each).resolve()) for each in under),
            "FAULT_KIND": fault.kind,
            "FAULT_AT": str(fault.at),
            "FAULT_ACTION": action,
            "FAULT_STAYS": "1" if fault.stays else "",
        }

    def tally(self):
        *counts, fired, hit = _TALLY.unpack(self._tally.read_bytes())
        return Tally(dict(zip(KINDS, counts, strict=True)), fired, hit.partition(b"\0")[0].decode())
