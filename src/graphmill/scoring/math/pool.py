"""Worker processes that compare answers, because algebra can run for ever: limits on CPU time and memory end it.

Each is ``python -m graphmill.scoring.math``, which reads and writes one JSON line for each pair. It is a plain
subprocess, so that it works in a script without ``if __name__ == "__main__"``, in a thread and beside a GPU.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import sys
import time
from typing import IO

from graphmill.core.errors import InternalError, Transient

WALL_S = 60.0  # generous: a busy machine is not a wrong answer
_START_S = 120.0
READY = b"ready\n"
_OUT_OF_MEMORY = (
    -signal.SIGKILL,
    -signal.SIGSEGV,
    -signal.SIGABRT,
)  # by the system, or a crash where memory or stack ran out


class MathWorker:
    """One worker process. It is started at the first pair, and again after one that it did not survive."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def compare(self, gold: str, answer: str) -> tuple[bool | None, str]:
        """Return whether an answer equals the reference answer; None and the limit that was hit if it is undecided.

        Raises:
            Transient: The worker cannot be started, or was ended from outside.

        """
        process = self._started()
        try:
            os.write(_descriptor(process.stdin), json.dumps([gold, answer]).encode() + b"\n")
        except BrokenPipeError:
            self.close()
            raise Transient("the math worker ended before it was asked") from None
        line = _read_line(process, WALL_S)
        if line:
            reply = json.loads(line)
            return reply["equal"], reply["limit"]
        self.close()
        if line is None:
            return None, f"{WALL_S:.0f} s"
        if process.returncode == -signal.SIGXCPU:
            return None, "CPU time"
        if process.returncode in _OUT_OF_MEMORY:
            return None, "memory"
        raise Transient(f"the math worker ended with status {process.returncode}")

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        if not _has_ended(process):
            process.kill()
            process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            if self._process.poll() is None:
                return self._process
            self.close()
        self._process = process = subprocess.Popen(
            [sys.executable, "-P", "-m", "graphmill.scoring.math"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        if _read_line(process, _START_S) != READY:
            self.close()
            raise Transient("the math worker did not start; its messages are above")
        return process


class MathPool:
    """As many workers as are asked at a time, kept for the next pair. Threads may share it."""

    def __init__(self) -> None:
        self._idle: queue.SimpleQueue[MathWorker] = queue.SimpleQueue()
        self._process = os.getpid()

    def compare(self, gold: str, answer: str) -> tuple[bool | None, str]:
        """Compare with an idle worker, or a new one."""
        if self._process != os.getpid():  # forked, as a trainer does: the workers are those of the other process
            self._idle, self._process = queue.SimpleQueue(), os.getpid()
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = MathWorker()
        try:
            return worker.compare(gold, answer)
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """End all workers."""
        while True:
            try:
                self._idle.get_nowait().close()
            except queue.Empty:
                return


def _descriptor(pipe: IO[bytes] | None) -> int:
    if pipe is None:
        raise InternalError("a worker without pipes")
    return pipe.fileno()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it ends by itself now that nothing more is coming; its exit status then says why."""
    try:
        process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        return False
    return True


def _read_line(process: subprocess.Popen[bytes], within_s: float) -> bytes | None:
    """Return the next line, b"" if the process has ended, or None if nothing came in time."""
    source = _descriptor(process.stdout)
    poll = select.poll()
    poll.register(source, select.POLLIN | select.POLLHUP)
    ends_at, line = time.monotonic() + within_s, b""
    while not line.endswith(b"\n"):
        left_s = ends_at - time.monotonic()
        if left_s <= 0 or not poll.poll(left_s * 1000):
            return None
        piece = os.read(source, 65536)
        if not piece:
            return b""
        line += piece
    return line
