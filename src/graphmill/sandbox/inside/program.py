"""The process of a program: its limits, its files, and how its code is run."""

from __future__ import annotations

import atexit
import os
import resource
import signal
import socket
import sys
import threading
import traceback
from types import ModuleType
from typing import Any

from graphmill.sandbox.inside.remote import Peer
from graphmill.sandbox.inside.wire import ConnectionEndedError, send

FOLDER = "/tmp/program"  # noqa: S108  a file system of the sandbox's own
FILE = "program.py"
_MOST_DESCRIPTORS = 1024
_CONNECTION = 3


def enter_limits(limits: dict[str, Any]) -> None:
    """Set the limits of this process and all that it starts; none can be raised again."""
    cpu_s = int(limits["cpu_s"])
    for what, soft, hard in (
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),
        (resource.RLIMIT_AS, limits["memory_bytes"], limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"], limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"], limits["open_files"]),
        (resource.RLIMIT_NPROC, limits["processes"], limits["processes"]),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        resource.setrlimit(what, (soft, hard))


def take_descriptors(stdin: int, stdout: int, stderr: int, connection: int) -> socket.socket:
    """Keep these four descriptors, as 0 to 3, and close all others."""
    high = [os.dup2(each, 900 + number, inheritable=False) for number, each in enumerate((stdin, stdout, stderr))]
    kept = os.dup2(connection, 903, inheritable=False)
    for number, each in enumerate(high):
        os.dup2(each, number)
    os.dup2(kept, _CONNECTION, inheritable=False)
    os.closerange(_CONNECTION + 1, _MOST_DESCRIPTORS)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1)  # noqa: SIM115
    return socket.socket(fileno=_CONNECTION)


def run_program(job: dict[str, Any], connection: socket.socket) -> None:
    """Run a job's program as a script or, if it is tested, as a module that its tests use. Never returns."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if job.get("command"):
        os.execvpe(job["command"][0], job["command"], job["environment"])  # noqa: S606
    module = ModuleType("program" if job["is_tested"] else "__main__")
    sys.modules[module.__name__] = module
    sys.argv = [FILE, *job.get("arguments", [])]
    sys.path.insert(0, FOLDER)
    module.__dict__["__file__"] = FILE
    status = _execute(job["code"], module.__dict__, connection)
    if job["is_tested"] and status == 0:
        sys.modules["solution"] = module
        try:
            Peer(connection, module.__dict__).serve()
        except ConnectionEndedError:
            os._exit(0)
    _leave(status)


def _execute(code: str, namespace: dict[str, Any], connection: socket.socket) -> int:
    try:
        compiled = compile(code, FILE, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        _report(connection, "compile_error", error)
        traceback.print_exception(error, limit=0)
        return 1
    try:
        exec(compiled, namespace)  # noqa: S102  what a sandbox is for
    except SystemExit as error:
        _report(connection, "exited", error)
        return _status(error)
    except BaseException as error:  # noqa: BLE001
        _report(connection, "memory_limit" if isinstance(error, MemoryError) else "exception", error)
        traceback.print_exception(type(error), error, (error.__traceback__ and error.__traceback__.tb_next))
        return 1
    send(connection, {"outcome": "loaded", "text": ""})
    return 0


def _report(connection: socket.socket, outcome: str, error: BaseException) -> None:
    try:
        text = "".join(traceback.format_exception_only(error)).strip()[-2000:]
    except BaseException:  # noqa: BLE001  its __str__ is the program's
        text = type(error).__name__
    send(connection, {"outcome": outcome, "text": text})


def _status(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 255
    print(error.code, file=sys.stderr)  # noqa: T201
    return 1


def _leave(status: int) -> None:
    """End as an interpreter does, without taking it down: it is a copy of a warm one.

    Nothing public does: to join the threads alone would wait forever for those of an executor that is never shut
    down, and only ``atexit`` knows the functions it was given.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
