"""Where processes are born warm: one that has loaded Graphmill, and forks for each command that ``support.warm`` asks it for.

A command is a process as real as any other, with a session, streams, folder, variables and signals of its own; only what Python does
before its first line is done already. ``python nursery.py DESCRIPTOR MODULE…`` serves one socket until that is shut.
"""

import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import ModuleType

NUMBER = struct.Struct("q")


def ready(*modules):
    """Load what commands need, and do not let each of them copy it when it first collects garbage."""
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which is for the commands, and for whoever runs the tests


def serve(control):
    """Wait for commands, and for their ends. This returns in each of them, with what it shall be; in the nursery at its own end.

    Each is told of by a line of its own: its id, and how it ended. It is no other's id until that line is shut.
    """
    line, looks, born = socket.socket(fileno=control), select.poll(), {}
    looks.register(control, select.POLLIN)
    while True:
        for descriptor, _ in looks.poll():
            if descriptor != control:
                follow(descriptor, looks, born)
                continue
            asked, given, *_ = socket.recv_fds(line, 1 << 20, 4)
            if not asked or not (pid := os.fork()):
                line.detach()
                return asked and (json.loads(asked), given[1:])
            os.write(given[0], NUMBER.pack(pid))
            born[end := os.pidfd_open(pid)] = pid, given[0]
            looks.register(end, select.POLLIN)
            for stream in given[1:]:
                os.close(stream)


def follow(descriptor, looks, born):
    """Tell how a command ended, or, if that was heard, let its id go."""
    looks.unregister(descriptor)
    os.close(descriptor)
    pid, line = born.pop(descriptor)
    if line is None:
        os.waitpid(pid, 0)
        return
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with suppress(BrokenPipeError):
        os.write(line, NUMBER.pack(ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status))
    born[line] = pid, None
    looks.register(line, select.POLLIN)


def become(asked, streams):
    """Be what ``python -m MODULE …`` or ``python -c CODE …`` is when its first line runs, and go on from there."""
    if asked["is_session"]:
        os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    if "LD_PRELOAD" in os.environ:
        ctypes.CDLL(os.environ["LD_PRELOAD"]).fault_start()  # it has read the variables of the nursery
    signal.signal(signal.SIGINT, signal.default_int_handler)
    open_streams()
    tempfile.tempdir = None
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    how, what, *arguments = asked["python"]
    own = [
        str(Path.cwd()) if how == "-m" else "",
        *(str(Path(each).absolute()) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each),
    ]
    sys.path[:1] = own  # where the folder of this file was
    sys.argv[:] = [how, *arguments]
    sys.modules["__main__"] = main = ModuleType("__main__")
    if how == "-m":
        runpy._run_module_as_main(what)
    else:
        exec(compile(what, "<string>", "exec"), main.__dict__)


def open_streams():
    """Open the standard streams anew, in the manner of the nursery's own, which Python has opened."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        own = getattr(sys, name)
        is_line = own.line_buffering if name == "stderr" else os.isatty(number) and not own.write_through
        raw = open(number, "wb" if number else "rb", 0 if number and own.write_through else -1, closefd=False)  # noqa: SIM115
        stream = io.TextIOWrapper(
            raw, own.encoding, own.errors, line_buffering=is_line, write_through=own.write_through
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    ready(*sys.argv[2:])
    if born := serve(int(sys.argv[1])):
        become(*born)
