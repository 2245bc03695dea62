"""Which signals end a command, and the quickest way out."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, NoReturn


def listen(strike: Callable[[int, Any], None]) -> None:
    """Let signals that ask the command to end call this; but not one that is ignored, as SIGHUP is under nohup."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, strike)


def leave_at_once(number: int, _frame: object) -> NoReturn:
    """Leave, where nothing has begun that could be lost."""
    os._exit(128 + number)
