"""Survivors: what a command started must not outlive this process, even if that is killed.

One small shell, in a session of its own, waits for the end of a pipe that only this process holds, and then kills the process groups that
stand in a table. The table is a file without a name: to enter a group costs one write, and wakes nobody.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from tempfile import TemporaryFile
from threading import Lock
from typing import IO

_LINE = 11
_NOBODY = b"%-10d\n" % 0
_WATCH = 'trap \'\' HUP INT QUIT TERM; read -r end; while read -r group; do [ "$group" = 0 ] || kill -KILL "-$group"; done <&1'


class Survivors:
    """The process groups of commands under way; for any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._free: list[int] = []
        self._count = 0
        self._table: IO[bytes] | None = None
        self._watcher: Popen[bytes] | None = None

    def enter(self, group: int) -> int:
        """Have a group killed when this process ends; give the line of the table that says so."""
        with self._lock:
            if self._table is None or self._watcher is None or self._watcher.poll() is not None:
                self._begin()
            if not self._free:
                self._free.append(self._count)
                self._count += 1
            line = self._free.pop()
            self._write(line, b"%-10d\n" % group)
            return line

    def prepare(self) -> None:
        """Begin to watch, so that the first command is watched from its start."""
        with self._lock:
            if self._watcher is None:
                self._begin()

    def strike_out(self, line: int) -> None:
        """Take a group out; its number must not be given to another before that."""
        with self._lock:
            self._write(line, _NOBODY)
            self._free.append(line)

    def _write(self, line: int, text: bytes) -> None:
        if self._table is not None:
            os.pwrite(self._table.fileno(), text, line * _LINE)

    def _begin(self) -> None:
        self._hang_up()
        if self._table is None:
            self._table = _new_table()
        self._watcher = Popen(  # noqa: S603
            ["/bin/sh", "-c", _WATCH],
            stdin=PIPE,
            stdout=self._table,
            stderr=DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def forget(self) -> None:
        """Let go, in a copy of this process, of what belongs to the original."""
        if self._watcher is not None:
            self._watcher.returncode = 0  # it is no child of ours
        self._hang_up()
        if self._table is not None:
            self._table.close()
        self.__init__()  # type: ignore[misc]

    def close(self) -> None:
        """End the watch: all groups that are left are killed."""
        self._hang_up()
        if self._watcher is not None:
            with suppress(TimeoutExpired):
                self._watcher.wait(timeout=1)
        if self._table is not None:
            self._table.close()
        self.__init__()  # type: ignore[misc]

    def _hang_up(self) -> None:
        if self._watcher is not None and self._watcher.stdin is not None:
            self._watcher.stdin.close()


def _new_table() -> IO[bytes]:
    """Make a file without a name, in memory where that can be had: a write to a disk may have to wait for it."""
    if sys.platform == "linux":
        return open(os.memfd_create("graphmill-groups"), "r+b", buffering=0)  # noqa: PTH123
    return TemporaryFile(buffering=0)


SURVIVORS = Survivors()
atexit.register(SURVIVORS.close)
os.register_at_fork(after_in_child=SURVIVORS.forget)
