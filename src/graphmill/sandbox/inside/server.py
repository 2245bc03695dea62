"""The supervisor: a warm interpreter inside a sandbox that runs one program at a time, each in a process of its own.

It reads jobs from its standard input, which is a socket, and answers there. A program never has this socket: it gets a
standard input, two pipes that are read up to a limit, and, if it is tested, a connection to its tests. What a program
started ends with it, and where anything of it might be left the supervisor ends too, so that the next program gets a
new sandbox.
"""

from __future__ import annotations

import base64
import ctypes
import gc
import importlib
import os
import resource
import select
import shutil
import signal
import socket
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from graphmill.sandbox.inside.program import FILE, FOLDER, enter_limits, run_program, take_descriptors
from graphmill.sandbox.inside.syscalls import refuse_system_calls
from graphmill.sandbox.inside.tests import run_tests
from graphmill.sandbox.inside.wire import ConnectionEndedError, receive, send

VERSION = 1
_WARM = (
    "abc array asyncio bisect cmath collections copy csv dataclasses datetime decimal enum fractions functools hashlib "
    "heapq inspect io itertools json math numbers operator random re statistics string struct textwrap threading time "
    "typing unittest"
)
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_MOST_REPORT_BYTES = 8 << 20
_TICK_S = 0.1
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_SCRATCH = ("/tmp", "/dev/shm")  # noqa: S108
_MOST_OUTPUT_FACTOR = 200  # a program that writes this many times what is kept is ended


def main(packages: list[str]) -> None:
    """Run programs until the standard input ends; ``packages`` are folders of installed packages that they may use."""
    if os.getpid() != 1:  # after each program all other processes are killed
        sys.exit("the supervisor must be the first process of a process namespace of its own")
    os.environ.clear()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the first process gets no signal that it does not handle
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # a program can neither trace this process nor take its descriptors
    jobs = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    for name in _WARM.split():
        importlib.import_module(name)
    sys.set_int_max_str_digits(0)
    if packages:
        sys.path += packages
        os.environ.update(_ONE_THREAD)
    gc.collect()
    gc.freeze()
    try:
        send(jobs, {"ready": VERSION, "python": sys.version.split()[0]})
        while True:
            run = _Run(receive(jobs), jobs, null)
            send(jobs, run.result())
            run.send_report()
            _clean()
    except ConnectionEndedError:
        return


class _Run:
    """One program, and its tests if it has any."""

    def __init__(self, job: dict[str, Any], jobs: socket.socket, null: int) -> None:
        self._job, self._limits = job, job["limits"]
        self._jobs = jobs
        self._outputs = {
            "stdout": _Captured(self._limits["output_bytes"]),
            "stderr": _Captured(self._limits["output_bytes"]),
        }
        self._limit = ""
        self._ends_at = time.monotonic() + self._limits["wall_s"]
        self._began = time.monotonic()
        _write_files(job)
        near, far = socket.socketpair()
        self._near = near
        self._program = self._start_program(far)
        far.close()
        self._tests: int | None = None
        self._report = os.memfd_create("report") if job["is_tested"] else None
        if self._report is not None:
            self._tests = self._start_tests(near, null, self._report)

    def result(self) -> dict[str, Any]:
        """Run it to its end, end whatever it left, and say what happened."""
        self._watch()
        _kill_all()
        ended = _reap({self._program, self._tests})
        status, usage = ended[self._program]
        tests_status = None if self._tests is None else ended[self._tests][0]
        for each in self._outputs.values():
            each.drain()
        cpu_s = usage.ru_utime + usage.ru_stime
        result = {
            "status": os.waitstatus_to_exitcode(status),
            "limit": self._limit or self._limit_of(status, tests_status, cpu_s),
            "cpu_s": cpu_s,
            "wall_s": time.monotonic() - self._began,
            "output": {name: each.text() for name, each in self._outputs.items()},
            "files": _read_files(self._job, self._limits["output_bytes"] * 16),
            "load": self._loaded(),
            "report_bytes": 0 if self._report is None else os.fstat(self._report).st_size,
        }
        self._near.close()
        return result

    def send_report(self) -> None:
        """Send what the tests reported, unread: the next program could find what is in this process's memory."""
        if self._report is None:
            return
        size, sent = os.fstat(self._report).st_size, 0
        while sent < size:
            sent += os.sendfile(self._jobs.fileno(), self._report, sent, size - sent)
        os.close(self._report)
        if size == 0:
            os._exit(0)  # the process of the tests ended before it had read them

    # -- starting

    def _start_program(self, connection: socket.socket) -> int:
        stdin = os.memfd_create("stdin")
        os.write(stdin, base64.b64decode(self._job.get("stdin", "")))
        os.lseek(stdin, 0, os.SEEK_SET)
        pid = os.fork()
        if pid == 0:
            self._be_program(stdin, connection)
        os.close(stdin)
        for each in self._outputs.values():
            each.close_writer()
        return pid

    def _be_program(self, stdin: int, connection: socket.socket) -> NoReturn:
        status = 1
        try:
            os.setsid()
            os.chdir(FOLDER)
            own = take_descriptors(
                stdin, self._outputs["stdout"].writer, self._outputs["stderr"].writer, connection.fileno()
            )
            enter_limits(self._limits)
            refuse_system_calls()
            run_program(self._job, own)
        except FileNotFoundError as error:
            print(f"{error.filename or ''}: command not found", file=sys.stderr)  # noqa: T201
            status = 127
        finally:
            os._exit(status)

    def _start_tests(self, connection: socket.socket, null: int, report: int) -> int:
        """Start the process of the tests, which reads them itself: neither the program nor this process has a copy."""
        pid = os.fork()
        if pid == 0:
            try:
                tests = receive(self._jobs)
                report = os.dup2(report, 950)
                own = socket.socket(fileno=os.dup2(connection.fileno(), 951))
                for number in range(3):
                    os.dup2(null, number)
                os.closerange(3, 950)
                os.chdir(FOLDER)
                enter_limits(self._limits | {"file_bytes": _MOST_REPORT_BYTES, "open_files": 1024})
                run_tests(tests, own, report)
            finally:
                os._exit(1)
        connection.close()
        return pid

    # -- watching

    def _watch(self) -> None:
        """Wait for the end: that of the tests or, without any, of the program."""
        waited_for = os.pidfd_open(self._program if self._tests is None else self._tests)
        poll = select.poll()
        poll.register(waited_for, select.POLLIN)
        poll.register(self._jobs, select.POLLRDHUP)
        sources = {each.reader: each for each in self._outputs.values()}
        for reader in sources:
            poll.register(reader, select.POLLIN)
        try:
            while not self._limit:
                ready = [number for number, _ in poll.poll(_TICK_S * 1000)]
                if self._jobs.fileno() in ready:
                    os._exit(0)  # whoever asked has ended, and with this process the whole sandbox ends
                for number in ready:
                    if number in sources and not sources[number].read():
                        poll.unregister(number)
                if waited_for in ready:
                    return
                self._limit = self._exceeded()
        finally:
            os.close(waited_for)

    def _exceeded(self) -> str:
        if time.monotonic() >= self._ends_at:
            return "timeout"
        if any(each.size > self._limits["output_bytes"] * _MOST_OUTPUT_FACTOR for each in self._outputs.values()):
            return "output_limit"
        for folder in _SCRATCH:
            files = os.statvfs(folder)
            if files.f_files - files.f_ffree > self._limits["files"]:
                return "file_limit"
        return ""

    def _limit_of(self, status: int, tests_status: int | None, cpu_s: float) -> str:
        ended_by = [os.WTERMSIG(each) for each in (status, tests_status) if each is not None and os.WIFSIGNALED(each)]
        if signal.SIGXCPU in ended_by or cpu_s >= int(self._limits["cpu_s"]):
            return "timeout"
        return ""

    def _loaded(self) -> Any:
        """Return what a program that is not tested reports of itself; for its own use, and true only if it wants."""
        if self._tests is not None:
            return None
        try:
            self._near.settimeout(0)
            return receive(self._near)
        except (ConnectionEndedError, OSError):
            return None


class _Captured:
    """A pipe whose first bytes are kept; the rest is read and dropped."""

    def __init__(self, most_bytes: int) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.size = 0
        self._most_bytes = most_bytes
        self._data = bytearray()

    def read(self) -> bool:
        """Read what is there; False at its end."""
        try:
            piece = os.read(self.reader, 1 << 16)
        except BlockingIOError:
            return True
        self.size += len(piece)
        self._data += piece[: self._most_bytes - len(self._data)]
        return bool(piece)

    def close_writer(self) -> None:
        os.close(self.writer)

    def drain(self) -> None:
        """Read what a pipe still holds, now that nobody writes any more."""
        while self.size < self._most_bytes + (1 << 20):
            before = self.size
            if not self.read() or self.size == before:
                break
        os.close(self.reader)

    def text(self) -> dict[str, Any]:
        return {"data": base64.b64encode(self._data).decode(), "bytes": self.size}


# -- files


def _write_files(job: dict[str, Any]) -> None:
    folder = Path(FOLDER)
    folder.mkdir()
    for name, data in (job.get("files") or {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data))
    if job.get("code") is not None:
        (folder / FILE).write_text(job["code"], "utf-8", "surrogatepass")


def _read_files(job: dict[str, Any], most_bytes: int) -> dict[str, Any]:
    """Read the files that the job asks for; a link or a device is none of them."""
    found = {}
    for name in job.get("wanted") or ():
        path = Path(FOLDER) / name
        try:
            if Path(os.path.realpath(path)) != path:
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    data = file.read(most_bytes + 1)
                    found[name] = {
                        "data": base64.b64encode(data[:most_bytes]).decode(),
                        "is_cut": len(data) > most_bytes,
                    }
        except OSError:
            continue
    return found


def _clean() -> None:
    """Empty the file systems that a program can write to, or end: a new sandbox has new ones."""
    try:
        os.chdir("/")
        for folder in _SCRATCH:
            for entry in os.scandir(folder):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)  # noqa: PTH108
    except (OSError, RecursionError):
        os._exit(0)


# -- processes


def _kill_all() -> None:
    """End every other process of the sandbox. This one is the first: it is spared, and inherits orphans."""
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def _reap(own: set[int | None]) -> dict[int, tuple[int, resource.struct_rusage]]:
    """Wait until all killed processes are gone; return how those ended that were asked for."""
    found: dict[int, tuple[int, resource.struct_rusage]] = {}
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return found
        if pid in own:
            found[pid] = (status, usage)


if __name__ == "__main__":
    main(sys.argv[1:])
