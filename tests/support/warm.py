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
HEARD_LATER = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")  # what else is said to Python itself it must be told when it starts
LOADED = [
    *("aiohttp", "email.parser", "psutil", "typer._click.decorators"),  # which others load when they are needed
    *(
        found.name
        for found in pkgutil.walk_packages(graphmill.__path__, "graphmill.")
        if not re.search("__main__|langgraph|genai", found.name)
    ),
]


@functools.cache
def nursery(preloaded):
    """Start a nursery; it ends with this process."""
    own, its = socket.socketpair(type=socket.SOCK_SEQPACKET)
    argv = [sys.executable, Path(__file__).with_name("nursery.py"), str(its.fileno()), *LOADED]
    variables = {name: value for name, value in INHERITED.items() if name != "PYTHONPATH"}
    with its:
        process = subprocess.Popen(argv, pass_fds=[its.fileno()], env=variables | ({"LD_PRELOAD": preloaded} if preloaded else {}))
    atexit.register(end, own, process)
    return own


def end(line, process):
    line.close()
    process.wait()


class WarmProcess(subprocess.Popen):
    """Only what starts it and waits for it is not as in its base; so it is not a child of this process."""

    def _execute_child(self, args, *rest):
        _, _, _, _, cwd, env, _, _, _, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, _, _, _, _, _, is_session, _ = rest
        env = dict(os.environ if env is None else env)
        asked = {"python": [str(each) for each in args[1:]], "cwd": str(cwd or Path.cwd()), "env": env, "is_session": is_session}
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
    """Start a process as ``subprocess.Popen`` does: warm if it is a module or code, told nothing that Python hears but at its start."""
    is_code = argv[0] == sys.executable and argv[1] in ("-m", "-c")
    is_warm = sys.platform == "linux" and is_code and told_to_python(how.get("env") or os.environ) == told_to_python(INHERITED)
    return (WarmProcess if is_warm else subprocess.Popen)(argv, **how)


def told_to_python(variables):
    return {name: value for name, value in variables.items() if name.startswith("PYTHON") and name not in HEARD_LATER}


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
