"""Worker processes as the event loop sees them."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import sys
from asyncio import AbstractEventLoop, CancelledError
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from subprocess import DEVNULL, Popen
from threading import Lock
from typing import Any

from graphmill.core.errors import UsageError, describe_error
from graphmill.core.result import Failure, Kind
from graphmill.engine.attempts.processes.importable import require_importable
from graphmill.engine.attempts.processes.worker import CALL, PIECE_BYTES, VALUE, Incoming, message
from graphmill.engine.attempts.threads import Ended, Threads
from graphmill.engine.failures import Reported, crashed, failure_of

_OPTIONS = {  # of the interpreter, by their names in sys.flags
    "debug": "-d",
    "dont_write_bytecode": "-B",
    "optimize": "-O",
    "isolated": "-I",
    "ignore_environment": "-E",
    "no_user_site": "-s",
    "no_site": "-S",
    "safe_path": "-P",
    "bytes_warning": "-b",
    "verbose": "-v",
}


class ChildProcess:
    """A child process that leads its own session and process group; it may be killed even before it starts.

    Its pid is released only under the lock, so that a late kill never hits another process.
    """

    def __init__(self, command: Sequence[str], connection: socket.socket) -> None:
        self.pid: int | None = None
        self._command = command
        self._connection = connection
        self._lock = Lock()
        self._is_killed = False
        self._is_reaped = False

    def run(self) -> int:
        """Start it, wait for its end, kill what is left of its group; return its status as subprocess does.

        Run this in a thread of its own: starting takes milliseconds, and the parent-death signal is sent when the
        thread ends that started the child.
        """
        with self._connection:
            if self._is_killed:
                return -signal.SIGKILL
            process = Popen(  # noqa: S603
                self._command, stdin=DEVNULL, pass_fds=[self._connection.fileno()], start_new_session=True
            )
        with self._lock:
            self.pid = process.pid
            if self._is_killed:
                self._kill_group(process.pid)
        return self._wait(process)

    def kill(self) -> None:
        """Kill it with everything it started, or prevent it from being started."""
        with self._lock:
            self._is_killed = True
            if self.pid is not None and not self._is_reaped:
                self._kill_group(self.pid)

    def _wait(self, process: Popen[bytes]) -> int:
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):  # reaped by somebody else
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:  # macOS before Python 3.13
            process.wait()
        with self._lock:
            self._is_reaped = True
            self._kill_group(process.pid)
            return process.wait()

    def _kill_group(self, pid: int) -> None:
        with suppress(ProcessLookupError, PermissionError):  # nothing is left, or only zombies
            os.killpg(pid, signal.SIGKILL)


MEASURE_EVERY_S = 0.1


class MemoryWatch:
    """Measures the memory of process groups ten times a second, in a thread of its own.

    ``groups`` returns the groups, each with data of the caller; ``measured(groups, bytes by group)`` gets both back.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        groups: Callable[[], dict[int, Any]],
        measured: Callable[[dict[int, Any], Counter[int]], None],
    ) -> None:
        self._loop = loop
        self._groups = groups
        self._measured = measured
        self._system: Any = import_module("psutil")
        self._threads = Threads(loop, "graphmill-memory", most=1)
        self._timer = loop.call_later(MEASURE_EVERY_S, self._measure)
        self._is_closed = False

    def dismiss(self) -> None:
        """Stop measuring."""
        self._is_closed = True
        self._timer.cancel()
        self._threads.dismiss()

    async def wait_gone(self, grace_s: float) -> None:
        """Wait for its thread."""
        await self._threads.wait_gone(grace_s)

    def _measure(self) -> None:
        groups = self._groups()
        try:
            self._threads.submit(partial(resident_bytes, self._system, groups), partial(self._report, groups))
        except RuntimeError:  # out of threads
            self._timer = self._loop.call_later(MEASURE_EVERY_S, self._measure)

    def _report(self, groups: dict[int, Any], weights: Counter[int] | None, _error: BaseException | None) -> None:
        if self._is_closed:
            return
        self._timer = self._loop.call_later(MEASURE_EVERY_S, self._measure)
        if weights:
            self._measured(groups, weights)


def resident_bytes(system: Any, groups: Collection[int]) -> Counter[int]:
    """Return the resident memory of each process group."""
    weights: Counter[int] = Counter()
    for pid in system.pids() if groups else ():
        try:
            group = os.getpgid(pid)
            if group in groups:
                weights[group] += system.Process(pid).memory_info().rss
        except (ProcessLookupError, PermissionError, system.Error):  # it ended meanwhile, or is not ours
            continue
    return weights


_MAX_MISSES = 3  # workers that die before they read the request; then it counts as a crash
_REAPED_S = 5.0  # a killed process is gone in milliseconds, unless it hangs in a driver


class Processes:
    """A pool with as many workers as there are attempts at once; idle ones are reused, the latest first.

    ``memory_bytes`` limits each; an attempt may have a lower limit of its own.
    """

    def __init__(
        self, loop: AbstractEventLoop, *, accept: Callable[[Any], Any] | None, memory_bytes: int | None
    ) -> None:
        self.loop = loop
        self._accept = None if accept is None else require_importable(accept)
        self._memory_bytes = memory_bytes
        self._watch: MemoryWatch | None = None
        self._workers: set[WorkerProcess] = set()
        self._idle: list[WorkerProcess] = []
        self._is_empty = asyncio.Event()
        self._last_graph: tuple[object, tuple[str, str]] = (None, ("", ""))

    def begin(
        self,
        graph: Callable[[Any], Any],
        value: Any,
        ended: Ended,
        *,
        is_suspect: bool = False,
        memory_bytes: int | None = None,
    ) -> ProcessAttempt:
        """Start an attempt; ``ended`` gets its value or error, once, on the loop, and never before this returns.

        A suspect, whose worker died before, gets a new one: what an earlier item left behind in a used one must not
        count against it.
        """
        limits = [limit for limit in (self._memory_bytes, memory_bytes) if limit is not None]
        attempt = ProcessAttempt(ended, needs_new=is_suspect, memory_bytes=min(limits, default=None))
        if limits and self._watch is None:
            self._watch = MemoryWatch(self.loop, self._busy, self._measured)
        try:
            attempt.request = message(CALL, self._pickle(graph, value))
        except Reported as error:
            self.loop.call_soon(attempt.end, None, error)
        else:
            self.place(attempt)
        return attempt

    def place(self, attempt: ProcessAttempt) -> None:
        """Run an attempt in an idle worker, or in a new one."""
        try:
            worker = self._idle.pop() if self._idle and not attempt.needs_new else self._start_worker()
        except (OSError, RuntimeError) as error:  # out of descriptors or threads
            self.loop.call_soon(attempt.end, None, _not_started(error))
        else:
            worker.run(attempt)

    def return_worker(self, worker: WorkerProcess) -> None:
        """Take back a worker whose attempt is over."""
        self._idle.append(worker)

    def retire(self, worker: WorkerProcess) -> None:
        """Remove a worker that is about to end from the idle ones."""
        with suppress(ValueError):
            self._idle.remove(worker)

    def forget(self, worker: WorkerProcess) -> None:
        """Remove a dead worker."""
        self._workers.discard(worker)
        if not self._workers:
            self._is_empty.set()

    def dismiss(self) -> None:
        """End idle workers in order, so that their exit functions run; kill busy ones."""
        if self._watch is not None:
            self._watch.dismiss()
        for worker in tuple(self._workers):
            worker.dismiss()

    async def close(self, grace_s: float) -> None:
        """Wait at most the grace period for workers to end; kill the rest, even if this is cancelled."""
        self.dismiss()
        try:
            await self._wait_empty(grace_s)
        finally:
            for worker in tuple(self._workers):
                worker.kill()
        await self._wait_empty(_REAPED_S)
        if self._watch is not None:
            await self._watch.wait_gone(grace_s)

    async def _wait_empty(self, longest_s: float) -> None:
        if self._workers:
            with suppress(TimeoutError):
                async with asyncio.timeout(longest_s):
                    await self._is_empty.wait()

    def _start_worker(self) -> WorkerProcess:
        worker = WorkerProcess(self, self._accept)
        self._workers.add(worker)
        self._is_empty.clear()
        return worker

    def _pickle(self, graph: Callable[[Any], Any], value: Any) -> bytes:
        try:
            if self._last_graph[0] is not graph:
                self._last_graph = (graph, require_importable(graph))
            return pickle.dumps((self._last_graph[1], value), pickle.HIGHEST_PROTOCOL)
        except UsageError as error:
            raise Reported(failure_of(error, Kind.PERMANENT)) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            message = (
                f"the item ({type(value).__qualname__}) can't be pickled for a worker process: {describe_error(error)}"
            )
            raise Reported(replace(failure_of(error, Kind.PERMANENT), message=message)) from error

    def _busy(self) -> dict[int, tuple[WorkerProcess, ProcessAttempt]]:
        return {
            worker.pid: (worker, worker.attempt)
            for worker in self._workers
            if worker.pid and worker.attempt and worker.attempt.memory_bytes is not None
        }

    def _measured(self, busy: dict[int, tuple[WorkerProcess, ProcessAttempt]], weights: Counter[int]) -> None:
        for group, (worker, attempt) in busy.items():
            limit = attempt.memory_bytes
            if limit is not None and weights[group] > limit:
                worker.exceed_memory(attempt, f"its worker process used more than {limit / 1e6:,.0f} MB and was killed")


class WorkerProcess:
    """One worker process as the loop sees it: what is sent, what comes back, its end."""

    # fmt: off
    __slots__ = (
        "_child", "_incoming", "_is_closed", "_is_retired", "_is_unread", "_pool", "_socket", "_threads", "_unsent",
        "attempt",
    )
    # fmt: on

    def __init__(self, pool: Processes, accept: tuple[str, str] | None) -> None:
        self.attempt: ProcessAttempt | None = None
        self._pool = pool
        self._incoming = Incoming()
        self._unsent = memoryview(b"")
        self._is_unread = False
        self._is_retired = False
        self._is_closed = False
        self._socket, theirs = socket.socketpair()
        self._child = ChildProcess(_command(theirs.fileno(), accept), theirs)
        self._threads = Threads(pool.loop, f"graphmill-worker-{theirs.fileno()}", most=1)
        try:
            self._socket.setblocking(False)  # noqa: FBT003
            pool.loop.add_reader(self._socket, self._readable)
            self._threads.submit(self._child.run, self._died)
        except BaseException:
            theirs.close()
            self._close()
            raise
        self._threads.dismiss()  # once its child has ended

    @property
    def pid(self) -> int | None:
        """Its process and process group; None before it is started."""
        return self._child.pid

    def run(self, attempt: ProcessAttempt) -> None:
        """Run an attempt; a process that is still starting finds the request then."""
        self.attempt = attempt
        attempt.worker = self
        self._send(memoryview(attempt.request))

    def kill(self) -> None:
        """Kill it with everything it started; the caller ends its attempt."""
        self.attempt = None
        self._child.kill()
        self._pool.retire(self)
        self._close()

    def dismiss(self) -> None:
        """End it if it is idle, else kill it."""
        if self.attempt is not None:
            attempt = self.attempt
            self.kill()
            attempt.end(None, CancelledError())
        elif not self._is_closed:
            self._pool.retire(self)
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def exceed_memory(self, attempt: ProcessAttempt, message: str) -> None:
        """Kill it for its memory; if another attempt has begun since it was measured, only after that one."""
        if self.attempt is attempt:
            self.kill()
            attempt.end(None, Reported(crashed(message)))
        elif self.attempt is None:
            self.kill()
        else:
            self._is_retired = True

    def _send(self, data: memoryview) -> None:
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:  # it is dead; its end will be reported
            self._is_unread = True
            sent = len(data)
        if sent < len(data):
            self._unsent = data[sent:]
            self._pool.loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        self._pool.loop.remove_writer(self._socket)
        unsent, self._unsent = self._unsent, memoryview(b"")
        self._send(unsent)

    def _readable(self) -> None:
        try:
            piece = self._socket.recv(PIECE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # it died and left something unread, which can only be the request
            self._is_unread = True
            piece = b""
        if not (piece and self._take(piece)):
            self._disconnect()

    def _take(self, piece: bytes) -> bool:
        """Take what it sent; return whether it may continue. A process forked by the function may write here too."""
        try:
            received = self._incoming.add(piece)
        except ConnectionError:
            return False
        if received is None:
            return True
        attempt, self.attempt = self.attempt, None
        if attempt is None:
            return False
        if self._is_retired:
            self.kill()
        else:
            self._pool.return_worker(self)
        attempt.end(*_outcome(*received))
        return True

    def _disconnect(self) -> None:
        """Stop listening to a worker that is dying; its attempt ends when its end is reported."""
        self._pool.retire(self)
        self._pool.loop.remove_reader(self._socket)
        self._pool.loop.remove_writer(self._socket)
        self._child.kill()

    def _died(self, status: int | None, error: BaseException | None) -> None:
        self._threads.join()
        if not self._is_closed:
            self._read_rest()
        self._pool.retire(self)
        self._pool.forget(self)
        self._close()
        attempt, self.attempt = self.attempt, None
        if attempt is None:
            return
        if error is not None:
            attempt.end(None, _not_started(error))
        elif self._is_unread and attempt.misses < _MAX_MISSES:  # it died before this attempt could begin
            attempt.misses += 1
            self._pool.place(attempt)
        else:
            attempt.end(None, Reported(crashed(f"its worker process died: {_death(status or 0)}")))

    def _read_rest(self) -> None:
        """Take what it sent before it died."""
        try:
            while (piece := self._socket.recv(PIECE_BYTES)) and self._take(piece):
                pass
        except BlockingIOError:  # another process has a copy of its socket
            pass
        except OSError:
            self._is_unread = True

    def _close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._pool.loop.remove_reader(self._socket)
            self._pool.loop.remove_writer(self._socket)
            self._socket.close()


class ProcessAttempt:
    """An attempt in a worker process. Interrupted, it is over at once, and its worker is killed."""

    __slots__ = ("_ended", "_is_over", "memory_bytes", "misses", "needs_new", "request", "worker")

    def __init__(self, ended: Ended, *, needs_new: bool, memory_bytes: int | None = None) -> None:
        self.needs_new = needs_new
        self.memory_bytes = memory_bytes
        self.misses = 0
        self.request = b""
        self.worker: WorkerProcess | None = None
        self._ended = ended
        self._is_over = False

    def interrupt(self) -> None:
        """Kill the worker."""
        if not self._is_over:
            if self.worker is not None:
                self.worker.kill()
            self.end(None, CancelledError())

    def end(self, output: Any, error: BaseException | None) -> None:
        """Report the end, once."""
        if not self._is_over:
            self._is_over = True
            self.worker = None
            self._ended(output, error)


def _command(descriptor: int, accept: tuple[str, str] | None) -> list[str]:
    path = [entry for entry in sys.path if isinstance(entry, str)]
    start = (
        f"from graphmill.engine.attempts.processes.worker import main; main({descriptor}, {os.getpid()}, {accept!a})"
    )
    return [sys.executable, *_interpreter_options(), "-c", f"import sys; sys.path[:] = {path!a}; {start}"]


def _interpreter_options() -> list[str]:
    """Return the options that this interpreter was started with, as far as they change what code does."""
    options = [option for name, option in _OPTIONS.items() for _ in range(getattr(sys.flags, name))]
    options += [f"-W{each}" for each in sys.warnoptions]
    if sys.flags.dev_mode:
        options += ["-X", "dev"]
    return [*options, "-X", f"utf8={sys.flags.utf8_mode}"]


def _outcome(sort: int, pickled: memoryview) -> tuple[Any, BaseException | None]:
    try:
        received = pickle.loads(pickled)  # noqa: S301  from our own worker, by the private socket
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  reading a user's object runs its code
        message = f"the output can't be unpickled: {describe_error(error)}"
        return None, Reported(replace(failure_of(error, Kind.PERMANENT), message=message))
    if sort == VALUE:
        return received, None
    failure, exception, is_unsent = received
    return None, Reported(failure, exception, is_unsent=is_unsent)


def _not_started(error: BaseException) -> Reported:
    message = f"a worker process could not be started: {describe_error(error)}"
    return Reported(Failure(kind=Kind.TRANSIENT, message=message, type="graphmill.WorkerNotStarted"), is_unsent=True)


def _death(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"killed by {name}"
