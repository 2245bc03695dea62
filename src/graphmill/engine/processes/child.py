"""A child process, from before its birth until it is reaped."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from socket import socket
from subprocess import DEVNULL, Popen
from threading import Lock


class Child:
    """One child, the leader of a session and process group of its own, which may be killed at any time: before it is born, after it died.

    Its number is given up to the system only under the lock, so that a late kill never strikes a stranger.
    """

    def __init__(self, command: Sequence[str], connection: socket) -> None:
        self.pid: int | None = None
        self._command = command
        self._connection = connection
        self._lock = Lock()
        self._is_condemned = False
        self._is_reaped = False

    def live(self) -> int:
        """Start it, wait for its death, kill what is left of its group; give its status as subprocess does.

        This is for a thread of its own: starting takes milliseconds, and the signal of a parent's death comes when the thread ends that
        made the child.
        """
        with self._connection:
            if self._is_condemned:
                return -signal.SIGKILL
            process = Popen(  # noqa: S603
                self._command, stdin=DEVNULL, pass_fds=[self._connection.fileno()], start_new_session=True
            )
        with self._lock:
            self.pid = process.pid
            if self._is_condemned:
                self._strike(process.pid)
        return self._see_out(process)

    def kill(self) -> None:
        """Kill it with all that it started, or keep it from being born."""
        with self._lock:
            self._is_condemned = True
            if self.pid is not None and not self._is_reaped:
                self._strike(self.pid)

    def _see_out(self, process: Popen[bytes]) -> int:
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):  # somebody else has reaped it
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:  # macOS before Python 3.13
            process.wait()
        with self._lock:
            self._is_reaped = True
            self._strike(process.pid)
            return process.wait()

    def _strike(self, pid: int) -> None:
        with suppress(ProcessLookupError, PermissionError):  # nobody is left, or only the dead
            os.killpg(pid, signal.SIGKILL)
