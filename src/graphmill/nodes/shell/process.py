"""The process of a shell command: its start, output, input and end.

Each command leads a session of its own. When it ends, is cancelled or times out, everything left in its process group
is killed; so are the groups of all commands when Graphmill itself is killed.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
from asyncio import AbstractEventLoop, CancelledError, Future, TimerHandle
from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from tempfile import TemporaryFile
from threading import Lock, Thread
from typing import IO

PATIENCE_S = 1.8  # between TERM and KILL; an interrupted attempt has two seconds in all before it is given up
MAX_OUTPUT_BYTES = 1_000_000
_END_BYTES = 1_500
_CHUNK_BYTES = 65_536
_MAX_CHUNKS_AFTER_END = 32  # a pipe holds no more; a process that escaped may keep writing


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """What to start: arguments, environment, folder and standard input."""

    words: Sequence[str | bytes]
    environment: Mapping[bytes, bytes]
    folder: str | None
    stdin: bytes | None


async def run_command(command: ShellCommand) -> ShellProcess:
    """Run a command to its end. If cancelled, its group gets TERM and, within two seconds, KILL."""
    process = ShellProcess(command, asyncio.get_running_loop())
    try:
        await process.wait()
    except CancelledError:
        process.terminate()
        try:
            await process.wait()
        finally:
            process.kill()
        raise
    except BaseException:
        process.kill()
        raise
    return process


class ShellProcess:
    """A running command: captured ``stdout`` and ``stderr``; ``status`` is its return code once it ended."""

    def __init__(self, command: ShellCommand, loop: AbstractEventLoop) -> None:
        self.stdout, self.stderr = OutputCapture(), OutputCapture()
        self.status: int | None = None
        self._loop = loop
        self._waiter: Future[None] | None = None
        self._timer: TimerHandle | None = None
        self._pidfd: int | None = None
        self._open: dict[int, OutputCapture | None] = {}
        self._unsent = memoryview(command.stdin or b"")
        self._line: int | None = None
        self._process = self._start(command)
        try:
            self._line = REAPER.add(self._process.pid)
            self._watch()
        except BaseException:
            self.kill()
            raise

    async def wait(self) -> None:
        """Wait for its end."""
        if self.status is None:
            self._waiter = self._loop.create_future()
            await self._waiter

    def terminate(self) -> None:
        """Ask its group to end, and kill the group if it does not."""
        self._signal(signal.SIGTERM)
        if self.status is None:
            self._timer = self._loop.call_later(PATIENCE_S, self._signal, signal.SIGKILL)

    def kill(self) -> None:
        """Kill its group now."""
        if self.status is None:
            self._signal(signal.SIGKILL)
            self._forget_group()
            with suppress(TimeoutExpired):  # stuck in the kernel: nothing can be done about it
                self._process.wait(timeout=1)
                self._finish()

    def _start(self, command: ShellCommand) -> Popen[bytes]:
        REAPER.start()
        theirs: list[int] = []
        try:
            ends = [self._pipe(theirs, capture) for capture in (self.stdout, self.stderr)]
            stdin = DEVNULL if command.stdin is None else self._pipe(theirs, None)
            return Popen(  # noqa: S603
                command.words,
                stdin=stdin,
                stdout=ends[0],
                stderr=ends[1],
                env=command.environment,
                cwd=command.folder,
                start_new_session=True,
            )
        except BaseException:
            self._close_all()
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def _pipe(self, theirs: list[int], capture: OutputCapture | None) -> int:
        """Create a pipe, register our end and return theirs."""
        reading, writing = os.pipe()
        ours, their = (writing, reading) if capture is None else (reading, writing)
        theirs.append(their)
        self._open[ours] = capture
        os.set_blocking(ours, False)
        return their

    def _watch(self) -> None:
        for descriptor, capture in list(self._open.items()):
            if capture is None:
                self._write(descriptor)
            else:
                self._loop.add_reader(descriptor, self._read, descriptor, capture)
        with suppress(AttributeError, OSError):  # only Linux has pidfd_open
            self._pidfd = os.pidfd_open(self._process.pid)
            self._loop.add_reader(self._pidfd, self._died)
            return
        Thread(target=self._await, name=f"graphmill-shell-{self._process.pid}", daemon=True).start()

    def _await(self) -> None:
        """Wait for its death in a thread; the loop reaps it."""
        with suppress(ChildProcessError):
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            else:  # macOS before Python 3.13
                self._process.wait()
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            self._loop.call_soon_threadsafe(self._died)

    def _read(self, descriptor: int, capture: OutputCapture) -> bool:
        """Read what is there; return whether there may be more."""
        try:
            chunk = os.read(descriptor, _CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        if chunk:
            capture.add(chunk)
        else:
            self._close(descriptor)
        return bool(chunk)

    def _write(self, descriptor: int) -> None:
        try:
            sent = os.write(descriptor, self._unsent[: _CHUNK_BYTES * 16])
        except (BlockingIOError, InterruptedError):
            sent = 0
        except BrokenPipeError:  # the command does not read its input
            sent = len(self._unsent)
        self._unsent = self._unsent[sent:]
        if self._unsent:
            self._loop.add_writer(descriptor, self._write, descriptor)
        else:
            self._close(descriptor)

    def _died(self) -> None:
        if self.status is None:
            self._signal(signal.SIGKILL)
            self._forget_group()
            self._process.wait()
            self._finish()

    def _forget_group(self) -> None:
        """Take the group from the reaper before the system can reuse its number."""
        if self._line is not None:
            REAPER.remove(self._line)
            self._line = None

    def _finish(self) -> None:
        """Read what is left in the pipes and close them, though a child that escaped may hold the other ends."""
        self.status = self._process.returncode
        for descriptor, capture in list(self._open.items()):
            chunks = 0
            while capture is not None and chunks < _MAX_CHUNKS_AFTER_END and self._read(descriptor, capture):
                chunks += 1
        self._close_all()
        if self._timer is not None:
            self._timer.cancel()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _close_all(self) -> None:
        for descriptor in list(self._open):
            self._close(descriptor)
        if self._pidfd is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            capture = self._open.pop(descriptor)
            remove = self._loop.remove_writer if capture is None else self._loop.remove_reader
            with suppress(RuntimeError):
                remove(descriptor)
            os.close(descriptor)

    def _signal(self, number: signal.Signals) -> None:
        if self.status is None:
            with suppress(ProcessLookupError, PermissionError):  # the group is empty, or only zombies are left
                os.killpg(self._process.pid, number)


class OutputCapture:
    """The first bytes of a stream, its last ones for error messages, and how many there were."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        self._total = 0
        self._end = b""

    def add(self, chunk: bytes) -> None:
        """Add what was written next."""
        self._total += len(chunk)
        room = MAX_OUTPUT_BYTES - self._size
        if room > 0:
            self._chunks.append(chunk[:room])
            self._size += min(len(chunk), room)
        if len(chunk) > room:
            self._end = (self._end + chunk)[-_END_BYTES:]

    def text(self) -> str:
        """Return it as text, with a note at the end if it was cut."""
        data, cut = b"".join(self._chunks), self._total - self._size
        if not cut:
            return data.decode("utf-8", "replace")
        whole = getincrementaldecoder("utf-8")("replace").decode(data)
        return f"{whole}\n[output cut: {cut:,} more bytes; the first {MAX_OUTPUT_BYTES:,} are above]\n"

    def end(self) -> str:
        """Return its last lines."""
        last = self._end if self._total > self._size else b"".join(self._chunks)[-_END_BYTES:]
        if self._total > _END_BYTES:
            last = b"\xe2\x80\xa6" + (last.partition(b"\n")[2] or last)
        return last.decode("utf-8", "replace").strip()


class GroupReaper:
    """Kills the process groups of running commands when this process ends, even by a kill. Thread-safe.

    A small shell in a session of its own waits for the end of a pipe that only this process holds, then kills the
    groups listed in a table. The table is an unnamed file: adding a group costs one write and wakes nobody.
    """

    _LINE_BYTES = 11
    _SCRIPT = (
        "trap '' HUP INT QUIT TERM; read -r end; "
        'while read -r group; do [ "$group" = 0 ] || kill -KILL "-$group"; done <&1'
    )

    def __init__(self) -> None:
        self._lock = Lock()
        self._reset()

    def _reset(self) -> None:
        self._free: list[int] = []
        self._count = 0
        self._table: IO[bytes] | None = None
        self._shell: Popen[bytes] | None = None

    def start(self) -> None:
        """Start the shell, so that even the first command is watched from its start."""
        with self._lock:
            if self._shell is None:
                self._begin()

    def add(self, group: int) -> int:
        """Add a group; return its line in the table."""
        with self._lock:
            if self._table is None or self._shell is None or self._shell.poll() is not None:
                self._begin()
            if not self._free:
                self._free.append(self._count)
                self._count += 1
            line = self._free.pop()
            self._write(line, group)
            return line

    def remove(self, line: int) -> None:
        """Remove a group; to be called before the system can give its number to another."""
        with self._lock:
            self._write(line, 0)
            self._free.append(line)

    def forget(self) -> None:
        """Drop, in a forked copy of this process, what belongs to the original."""
        if self._shell is not None:
            self._shell.returncode = 0  # the copy is not its parent
        self._hang_up()
        if self._table is not None:
            self._table.close()
        self._lock = Lock()
        self._reset()

    def close(self) -> None:
        """Kill all groups that are left, and end the shell."""
        self._hang_up()
        if self._shell is not None:
            with suppress(TimeoutExpired):
                self._shell.wait(timeout=1)
        if self._table is not None:
            self._table.close()
        self._reset()

    def _write(self, line: int, group: int) -> None:
        if self._table is not None:
            os.pwrite(self._table.fileno(), b"%-10d\n" % group, line * self._LINE_BYTES)

    def _begin(self) -> None:
        self._hang_up()
        if self._table is None:
            self._table = _new_table()
        self._shell = Popen(  # noqa: S603
            ["/bin/sh", "-c", self._SCRIPT],
            stdin=PIPE,
            stdout=self._table,
            stderr=DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def _hang_up(self) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            self._shell.stdin.close()


def _new_table() -> IO[bytes]:
    """Create an unnamed file, in memory where possible: a write to a disk may block."""
    if sys.platform == "linux":
        return open(os.memfd_create("graphmill-groups"), "r+b", buffering=0)  # noqa: PTH123
    return TemporaryFile(buffering=0)


REAPER = GroupReaper()
atexit.register(REAPER.close)
os.register_at_fork(after_in_child=REAPER.forget)
