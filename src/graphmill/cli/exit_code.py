"""What the exit status of a command means."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """One meaning each, documented in docs/cli.md."""

    DONE = 0
    CRASH = 1
    USAGE = 2
    FAILURES = 3
    PAUSED = 5
    DATA = 65
    SERVICE = 69
    OUTPUT = 74
    OWNED = 75
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143
