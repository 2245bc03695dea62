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
import signal
import socket
import struct
import sys
import tempfile
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
    """Wait for commands. This returns in each of them, with what it shall be, and in the nursery at the end, with nothing."""
    with socket.socket(fileno=control) as line:
        while True:
            asked, descriptors, *_ = socket.recv_fds(line, 1 << 20, 4)
            if not asked:
                return None
            if not os.fork():
                break
            for descriptor in descriptors:
                os.close(descriptor)
            while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):  # the newest is there at least
                pass
    told, *streams = descriptors
    pid = os.fork()
    return keep(pid, told, streams) if pid else (json.loads(asked), streams)


def keep(pid, told, streams):
    """Tell the id of a command, and how it ended; the id is no other's until nobody asks for it any more."""
    for descriptor in streams:
        os.close(descriptor)
    with socket.socket(fileno=told) as line:
        line.sendall(NUMBER.pack(pid))
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        line.sendall(NUMBER.pack(ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status))
        line.recv(1)
    os.waitpid(pid, 0)
    os._exit(0)


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
        stream = io.TextIOWrapper(raw, own.encoding, own.errors, line_buffering=is_line, write_through=own.write_through)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    ready(*sys.argv[2:])
    if born := serve(int(sys.argv[1])):
        become(*born)
