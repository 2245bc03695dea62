"""The process of a command: the leader of a session of its own, whose end, output and input the loop watches."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio import AbstractEventLoop, CancelledError, Future, TimerHandle
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from subprocess import DEVNULL, Popen, TimeoutExpired
from threading import Thread

from graphmill.nodes.shell.capture import Capture
from graphmill.nodes.shell.survivors import SURVIVORS

PATIENCE_S = 1.8  # after TERM; an interrupted attempt has two seconds in all before it is given up
_PIECE_BYTES = 65_536
_MOST_LEFT_PIECES = 32  # a pipe holds no more; somebody may go on to write


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What is started: words, environment, folder, and what it reads."""

    words: Sequence[str | bytes]
    environment: Mapping[bytes, bytes]
    folder: str | None
    stdin: bytes | None


async def ended(invocation: Invocation) -> Process:
    """Run a command to its end; whatever it has left in its process group ends with it. Cancelled, it gets TERM, and soon KILL."""
    process = Process(invocation, asyncio.get_running_loop())
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


class Process:
    """A command under way: ``stdout`` and ``stderr`` take what it writes, and ``status``, once it has ended, is as subprocess gives it."""

    def __init__(self, invocation: Invocation, loop: AbstractEventLoop) -> None:
        self.stdout, self.stderr = Capture(), Capture()
        self.status: int | None = None
        self._loop = loop
        self._waiter: Future[None] | None = None
        self._timer: TimerHandle | None = None
        self._pidfd: int | None = None
        self._open: dict[int, Capture | None] = {}
        self._unsent = memoryview(invocation.stdin or b"")
        self._line: int | None = None
        self._process = self._started(invocation)
        try:
            self._line = SURVIVORS.enter(self._process.pid)
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
        """Ask all of its group to end, and end them if they do not."""
        self._signal(signal.SIGTERM)
        if self.status is None:
            self._timer = self._loop.call_later(PATIENCE_S, self._signal, signal.SIGKILL)

    def kill(self) -> None:
        """End all of its group now."""
        if self.status is None:
            self._signal(signal.SIGKILL)
            self._strike_out()
            with suppress(TimeoutExpired):  # one that the system does not let die is left to it
                self._process.wait(timeout=1)
                self._finish()

    def _started(self, invocation: Invocation) -> Popen[bytes]:
        SURVIVORS.prepare()
        theirs: list[int] = []
        try:
            ends = [self._pipe(theirs, capture) for capture in (self.stdout, self.stderr)]
            stdin = DEVNULL if invocation.stdin is None else self._pipe(theirs, None)
            return Popen(  # noqa: S603
                invocation.words,
                stdin=stdin,
                stdout=ends[0],
                stderr=ends[1],
                env=invocation.environment,
                cwd=invocation.folder,
                start_new_session=True,
            )
        except BaseException:
            self._close_all()
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def _pipe(self, theirs: list[int], capture: Capture | None) -> int:
        """Make a pipe; keep our end of it, and give theirs."""
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
        with suppress(AttributeError, OSError):  # only Linux has them
            self._pidfd = os.pidfd_open(self._process.pid)
            self._loop.add_reader(self._pidfd, self._died)
            return
        Thread(target=self._await, name=f"graphmill-shell-{self._process.pid}", daemon=True).start()

    def _await(self) -> None:
        """Wait for its death in a thread, and leave it to the loop to reap it."""
        with suppress(ChildProcessError):
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            else:  # macOS before Python 3.13
                self._process.wait()
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self._loop.call_soon_threadsafe(self._died)

    def _read(self, descriptor: int, capture: Capture) -> bool:
        """Take what is there; tell whether there may be more."""
        try:
            piece = os.read(descriptor, _PIECE_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        if piece:
            capture.add(piece)
        else:
            self._close(descriptor)
        return bool(piece)

    def _write(self, descriptor: int) -> None:
        try:
            sent = os.write(descriptor, self._unsent[: _PIECE_BYTES * 16])
        except (BlockingIOError, InterruptedError):
            sent = 0
        except BrokenPipeError:  # it does not want to read more
            sent = len(self._unsent)
        self._unsent = self._unsent[sent:]
        if self._unsent:
            self._loop.add_writer(descriptor, self._write, descriptor)
        else:
            self._close(descriptor)

    def _died(self) -> None:
        if self.status is None:
            self._signal(signal.SIGKILL)
            self._strike_out()
            self._process.wait()
            self._finish()

    def _strike_out(self) -> None:
        """Forget the group, before its number is given up to the system."""
        if self._line is not None:
            SURVIVORS.strike_out(self._line)
            self._line = None

    def _finish(self) -> None:
        """Take what was still in the pipes, and leave nothing open, though a child that escaped may hold the other ends."""
        self.status = self._process.returncode
        for descriptor, capture in list(self._open.items()):
            pieces = 0
            while capture is not None and pieces < _MOST_LEFT_PIECES and self._read(descriptor, capture):
                pieces += 1
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
            with suppress(ProcessLookupError, PermissionError):  # nobody is left, or only the dead
                os.killpg(self._process.pid, number)
