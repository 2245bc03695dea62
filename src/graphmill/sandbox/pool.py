"""Warm sandboxes, as many as the machine has cores, for the programs of one run."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import struct
import subprocess
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from graphmill.core.errors import SandboxError, Unavailable
from graphmill.sandbox.sandbox import (
    Sandbox,
    SandboxLimits,
    SandboxOutcome,
    SandboxProgram,
    SandboxTest,
    SandboxTests,
    installed_packages,
)
from graphmill.sandbox.self_test import SELF_TEST

_HEADER = struct.Struct(">I")
_START_S = 60.0
_SPARE_S = 30.0  # that a supervisor may be late on a busy machine
_END_S = 10.0
_MEMORY_TICK_S = 0.25
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PATH = "/opt/bin:/usr/local/bin:/usr/bin:/bin"
_ENVIRONMENT = {"PATH": _PATH, "HOME": "/tmp/program", "LANG": "C.UTF-8"}  # noqa: S108


class SandboxPool:
    """Runs programs in warm sandboxes, at most ``workers`` at a time, by default one for each core.

    ``with_packages`` shows programs the packages that are installed here. A sandbox is started when it is first needed,
    and the first one is tested before anything runs in it. One that a program did not leave as it was is replaced.
    """

    def __init__(self, sandbox: Sandbox, *, workers: int | None = None, with_packages: bool = False) -> None:
        self._sandbox = sandbox
        self._packages = installed_packages() if with_packages else ()
        self._workers = workers or os.cpu_count() or 1
        self._idle: list[SandboxWorker] = []
        self._busy: set[SandboxWorker] = set()
        self._loop: AbstractEventLoop | None = None
        self._places = asyncio.Semaphore(self._workers)
        self._is_tested = False
        self._testing = asyncio.Lock()
        # A sandbox is killed when the thread ends that started it, and the thread of an event loop may end before this
        # pool.
        self._starter = ThreadPoolExecutor(1, "graphmill-sandbox")

    async def open(self) -> None:
        """Start a sandbox and test that it holds; SandboxError says what is missing or open."""
        self._enter_loop()
        async with self._testing:
            if self._is_tested:
                return
            worker = await SandboxWorker.start(self._sandbox, self._packages, self._starter)
            try:
                outcome = await worker.ask(SandboxProgram(code=SELF_TEST), None, SandboxLimits())
                if outcome.status != 0 or outcome.stdout != b"closed\n":
                    found = (outcome.stderr or outcome.stdout).decode(errors="replace").strip()[-500:]
                    raise SandboxError(f"the sandbox does not hold, so nothing is run in it: {found}")
            except _WorkerEndedError as error:
                worker.end()
                raise SandboxError(f"the sandbox ended in its self-test: {error}") from None
            except BaseException:
                worker.end()
                raise
            self._idle.append(worker)
            self._is_tested = True

    async def run(
        self, program: SandboxProgram, tests: SandboxTests | None = None, *, limits: SandboxLimits | None = None
    ) -> SandboxOutcome:
        """Run a program, or test it.

        Raises:
            SandboxError: no sandbox works here.
            Unavailable: A sandbox could not be started although one was before.

        """
        if not self._is_tested:
            await self.open()
        self._enter_loop()
        async with self._places:
            given = (program, tests, limits or SandboxLimits())
            try:
                return await self._run(*given)
            except _WorkerEndedError as error:
                if error.limit:
                    return _ended_by(error)
            try:  # ended by its program, or by somebody else: a second time tells
                return await self._run(*given, in_new=True)
            except _WorkerEndedError as error:
                return _ended_by(error)

    async def close(self) -> None:
        """End all sandboxes, and what runs in them."""
        for worker in (*self._idle, *self._busy):
            worker.end()
        self._idle.clear()
        await asyncio.to_thread(self._starter.shutdown)  # when all have ended

    async def _run(
        self, program: SandboxProgram, tests: SandboxTests | None, limits: SandboxLimits, *, in_new: bool = False
    ) -> SandboxOutcome:
        worker = await self._take_worker(in_new=in_new)
        self._busy.add(worker)
        try:
            outcome = await worker.ask(program, tests, limits)
        except BaseException:
            worker.end()
            raise
        finally:
            self._busy.discard(worker)
        self._idle.append(worker)
        return outcome

    async def _take_worker(self, *, in_new: bool) -> SandboxWorker:
        while self._idle and not in_new:
            worker = self._idle.pop()
            if worker.is_alive():
                return worker
            worker.end()
        try:
            return await SandboxWorker.start(self._sandbox, self._packages, self._starter)
        except SandboxError as error:
            raise Unavailable(str(error)) from error

    def _enter_loop(self) -> None:
        """Use this event loop, which may be another than the last time: that of another ``asyncio.run``."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._places = asyncio.Semaphore(self._workers)
            self._testing = asyncio.Lock()


class _WorkerEndedError(Exception):
    def __init__(self, text: str, limit: str = "") -> None:
        self.limit = limit
        super().__init__(text)


def _ended_by(error: _WorkerEndedError) -> SandboxOutcome:
    return SandboxOutcome(status=-9, limit=error.limit, load="exited", load_text="the program ended its sandbox")


class SandboxWorker:
    """One warm sandbox, and the connection to its supervisor."""

    def __init__(
        self, process: subprocess.Popen[bytes], connection: socket.socket, starter: ThreadPoolExecutor
    ) -> None:
        self._process = process
        self._starter = starter
        self._connection = connection
        self._limit = ""
        self._has_ended = False

    @classmethod
    async def start(cls, sandbox: Sandbox, packages: Sequence[Path], starter: ThreadPoolExecutor) -> SandboxWorker:
        """Start one, in a thread that lives as long as it may; SandboxError says why it does not start."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with theirs, TemporaryFile(buffering=0) as stderr:
            try:
                process = await loop.run_in_executor(starter, sandbox.start, theirs, stderr.fileno(), packages)
            except BaseException:
                ours.close()
                raise
            theirs.close()
            ours.settimeout(0)
            worker = cls(process, ours, starter)
            try:
                async with asyncio.timeout(_START_S):
                    await worker.receive()
            except (_WorkerEndedError, TimeoutError) as error:
                worker.end()
                stderr.seek(0)
                said = stderr.read(2000).decode(errors="replace").strip() or str(error)
                raise SandboxError(f"the sandbox does not start: {said}{_remedy(said)}") from None
            except BaseException:
                worker.end()
                raise
        return worker

    async def ask(self, program: SandboxProgram, tests: SandboxTests | None, limits: SandboxLimits) -> SandboxOutcome:
        """Run a program in this sandbox."""
        memory = _MemoryWatch(self, limits.memory_bytes)
        try:
            async with asyncio.timeout(limits.wall_s + _SPARE_S):
                await self._send(_job(program, limits, is_tested=tests is not None))
                if tests is not None:
                    await self._send(
                        {"tests": list(tests.tests), "entry_point": tests.entry_point, "prelude": tests.prelude}
                    )
                answer = await self.receive()
                report = await self._read(answer["report_bytes"])
        except TimeoutError:
            raise _WorkerEndedError("no answer", "timeout") from None
        finally:
            memory.close()
        return _outcome(answer, [json.loads(line) for line in report.split(b"\n")[:-1]])

    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process.poll() is None

    def end_for(self, limit: str) -> None:
        """End it because its program exceeds this limit."""
        self._limit = limit
        self._disconnect()

    @property
    def pid(self) -> int:
        """The process outside of the sandbox."""
        return self._process.pid

    def end(self) -> None:
        """End it, with everything in it.

        The supervisor ends when nobody is connected to it. To kill the process outside is not enough: a sandbox that
        root started belongs to another user, whom what is left of that process may not signal.
        """
        if not self._has_ended:
            self._has_ended = True
            self._disconnect()
            self._connection.close()
            self._starter.submit(self._wait)

    def _disconnect(self) -> None:
        with suppress(OSError):  # it has ended
            self._connection.shutdown(socket.SHUT_RDWR)

    def _wait(self) -> None:
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    async def _send(self, message: Any) -> None:
        data = json.dumps(message).encode()
        with suppress(OSError):  # it has ended, which is noticed when its answer is read
            await asyncio.get_running_loop().sock_sendall(self._connection, _HEADER.pack(len(data)) + data)

    async def receive(self) -> Any:
        """Return the next message of its supervisor; the first says that it is ready."""
        (size,) = _HEADER.unpack(await self._read(_HEADER.size))
        return json.loads(await self._read(size))

    async def _read(self, size: int) -> bytes:
        loop, data = asyncio.get_running_loop(), bytearray()
        while len(data) < size:
            try:
                piece = await loop.sock_recv(self._connection, min(size - len(data), 1 << 20))
            except OSError:
                piece = b""
            if not piece:
                raise _WorkerEndedError("it ended", self._limit)
            data += piece
        return bytes(data)


class _MemoryWatch:
    """Ends a sandbox whose processes together use more memory than one may; the limit of each is the supervisor's."""

    def __init__(self, worker: SandboxWorker, most_bytes: int) -> None:
        self._worker, self._most_bytes = worker, most_bytes
        self._timer: TimerHandle = asyncio.get_running_loop().call_later(_MEMORY_TICK_S, self._look)

    def _look(self) -> None:
        if _memory_below(self._worker.pid) > self._most_bytes:
            self._worker.end_for("memory_limit")
            return
        self._timer = asyncio.get_running_loop().call_later(_MEMORY_TICK_S, self._look)

    def close(self) -> None:
        self._timer.cancel()


def _memory_below(pid: int) -> int:
    """Return the memory that processes use which descend from this one, beyond that of a warm interpreter."""
    sizes: list[int] = []
    _add_sizes(pid, sizes)
    pages = [each for each in sizes if each > 0]
    return (sum(pages) - (len(pages) * _warm_pages(pages))) * _PAGE


def _warm_pages(pages: list[int]) -> int:
    return min((each for each in pages if each > 1000), default=0)


def _add_sizes(pid: int, sizes: list[int]) -> None:
    folder = Path("/proc") / str(pid)
    with suppress(OSError, ValueError):
        resident, shared = (folder / "statm").read_text().split()[1:3]
        sizes.append(int(resident) - int(shared))
        for task in (folder / "task").iterdir():
            for child in (task / "children").read_text().split():
                _add_sizes(int(child), sizes)


def _remedy(said: str) -> str:
    if "uid map" in said or "namespace" in said or "Permission denied" in said or "not permitted" in said:
        return (
            "\nUnprivileged user namespaces seem to be switched off. Debian: sysctl "
            "kernel.unprivileged_userns_clone=1; "
            "Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0; in a container: see docs/sandbox.md"
        )
    return ""


# -- what the supervisor reads and writes


def _job(program: SandboxProgram, limits: SandboxLimits, *, is_tested: bool) -> dict[str, Any]:
    return {
        "code": program.code,
        "command": list(program.command),
        "environment": _ENVIRONMENT,
        "arguments": list(program.arguments),
        "stdin": _encoded(program.stdin),
        "files": {name: _encoded(data) for name, data in program.files.items()},
        "wanted": list(program.wanted),
        "is_tested": is_tested,
        "limits": {name: getattr(limits, name) for name in limits.__slots__},
    }


def _outcome(answer: Mapping[str, Any], report: Sequence[Mapping[str, Any]]) -> SandboxOutcome:
    output = {name: base64.b64decode(each["data"]) for name, each in answer["output"].items()}
    load = next((line for line in report if "load" in line), None) or _own_load(answer["load"])
    return SandboxOutcome(
        status=answer["status"],
        limit=answer["limit"],
        cpu_s=answer["cpu_s"],
        wall_s=answer["wall_s"],
        stdout=output["stdout"],
        stderr=output["stderr"],
        is_output_cut=any(each["bytes"] > len(output[name]) for name, each in answer["output"].items()),
        files={name: base64.b64decode(each["data"]) for name, each in answer["files"].items()},
        load=load["load"],
        load_text=load["text"],
        broken=next((line["broken"] for line in report if "broken" in line), ""),
        test_count=next((line["count"] for line in report if "count" in line), 0),
        tests=tuple(
            SandboxTest(source=line["test"], outcome=line["outcome"], text=line["text"])
            for line in report
            if "test" in line
        ),
        all_tests_ran=any("done" in line for line in report),
    )


def _own_load(load: Any) -> dict[str, str]:
    """Read what a program without tests says of itself; it may have written anything."""
    if not isinstance(load, dict) or not isinstance(load.get("outcome"), str) or not isinstance(load.get("text"), str):
        return {"load": "", "text": ""}
    return {"load": load["outcome"][:40], "text": load["text"][:2000]}


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
