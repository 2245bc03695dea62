"""Processes that start warm: a nursery, one for all tests of a process, has loaded Graphmill and forks each of them."""

import atexit
import functools
import json
import os
import pkgutil
import re
import socket
import subprocess
import sys
from pathlib import Path

import graphmill
from support.nursery import NUMBER

INHERITED = dict(os.environ)
HEARD_AT_START = re.compile("PYTHON(?!PATH$|DONTWRITEBYTECODE$)|SSL_CERT_")  # by Python, or by a module that is loaded
LOADED = [
    *(
        "aiohttp",
        "email.parser",
        "psutil",
        "typer._click.decorators",
        "typer._adapters",
    ),  # which others load when they are needed
    *(
        found.name
        for found in pkgutil.walk_packages(graphmill.__path__, "graphmill.")
        if not re.search("__main__|langgraph|genai", found.name)
    ),
]
PIDS, DESCRIPTORS = set(), set()  # of the nurseries


@functools.cache
def nursery(preloaded):
    """Start a nursery; it ends with this process."""
    own, its = socket.socketpair(type=socket.SOCK_SEQPACKET)
    argv = [sys.executable, Path(__file__).with_name("nursery.py"), str(its.fileno()), *LOADED]
    variables = {name: value for name, value in INHERITED.items() if name != "PYTHONPATH"}
    with its:
        process = subprocess.Popen(
            argv, pass_fds=[its.fileno()], env=variables | ({"LD_PRELOAD": preloaded} if preloaded else {})
        )
    atexit.register(end, own, process)
    PIDS.add(process.pid)
    DESCRIPTORS.add(str(own.fileno()))
    return own


def end(line, process):
    line.close()
    process.wait()


class WarmProcess(subprocess.Popen):
    """Only what starts it and waits for it is not as in its base; so it is not a child of this process."""

    def _execute_child(self, args, *rest):
        (
            _,
            _,
            _,
            _,
            cwd,
            env,
            _,
            _,
            _,
            p2cread,
            p2cwrite,
            c2pread,
            c2pwrite,
            errread,
            errwrite,
            _,
            _,
            _,
            _,
            _,
            is_session,
            _,
        ) = rest
        env = dict(os.environ if env is None else env)
        asked = {
            "python": [str(each) for each in args[1:]],
            "cwd": str(cwd or Path.cwd()),
            "env": env,
            "is_session": is_session,
        }
        streams = [number if given == -1 else given for number, given in enumerate((p2cread, c2pwrite, errwrite))]
        self._line, its = socket.socketpair()
        with its:
            socket.send_fds(nursery(env.get("LD_PRELOAD")), [json.dumps(asked).encode()], [its.fileno(), *streams])
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)
        self.pid = self._told()
        self._child_created = True

    def _wait(self, timeout):
        if self.returncode is None:
            self._line.settimeout(timeout)
            try:
                self.returncode = self._told()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout) from None
            self._line.close()
        return self.returncode

    def _internal_poll(self, **_):
        try:
            return self._wait(0)
        except subprocess.TimeoutExpired:
            return None

    def _told(self):
        told = self._line.recv(NUMBER.size, socket.MSG_WAITALL)
        assert told, "the nursery has failed"
        return NUMBER.unpack(told)[0]


def start(argv, **how):
    """Start a process as ``subprocess.Popen`` does: warm if it is a module or code and is told nothing that is heard at the start."""
    is_code = argv[0] == sys.executable and argv[1] in ("-m", "-c")
    is_warm = (
        sys.platform == "linux"
        and is_code
        and heard_at_start(how.get("env") or os.environ) == heard_at_start(INHERITED)
    )
    return (WarmProcess if is_warm else subprocess.Popen)(argv, **how)


def heard_at_start(variables):
    return {name: value for name, value in variables.items() if HEARD_AT_START.match(name)}


def run(argv, *, input=None, timeout=None, capture_output=False, check=False, **how):  # noqa: A002
    """Run a process to its end as ``subprocess.run`` does."""
    if input is not None:
        how["stdin"] = subprocess.PIPE
    if capture_output:
        how["stdout"] = how["stderr"] = subprocess.PIPE
    with start(argv, **how) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(argv, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done
