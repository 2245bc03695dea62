"""A warm process is what a cold one is, but for the time it takes to start."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

from support import warm
from support.command import HANG_S, environment
from support.remains import wait_until

STANDING = """
import json, os, signal, sys, threading
from hashlib import blake2b
print(json.dumps({
    "name": __name__,
    "main": sys.modules["__main__"].__dict__ is globals(),
    "argv": sys.argv,
    "path": sys.path,
    "folder": os.getcwd(),
    "variables": blake2b(repr(sorted(os.environb.items())).encode()).hexdigest(),
    "signals": [str(signal.getsignal(number)).partition(" at ")[0] for number in range(1, signal.NSIG)],
    "descriptors": [each for each in os.listdir("/proc/self/fd") if int(each) < 3],
    "streams": [(each.encoding, each.errors, each.line_buffering, each.isatty()) for each in (sys.stdin, sys.stdout, sys.stderr)],
    "leads": (os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()),
    "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "umask": os.umask(0),
    "bytecode": sys.dont_write_bytecode,
    "threads": threading.active_count(),
    "limits": __import__("resource").getrlimit(__import__("resource").RLIMIT_NOFILE),
}))
print(sys.stdin.read(), file=sys.stderr)
"""
ENDS = {
    "by itself": "print(5)",
    "with a status": "import sys; sys.exit(4)",
    "with words": "import sys; sys.exit('no')",
    "with an exception": "1 / 0",
    "interrupted": "raise KeyboardInterrupt",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "when its threads do": "import threading; threading.Timer(0.05, print, ['late']).start()",
    "after what it has put off": "import atexit; atexit.register(print, 'last')",
    "at once": "import os; print('lost', end=''); os._exit(3)",
}


def both(*python, **how):
    """Run the same warm and cold."""
    how = {"env": environment(PYTHONPATH="there", MORE="é"), **how}
    started = [
        run([sys.executable, *python], capture_output=True, text=True, timeout=HANG_S, **how)
        for run in (warm.run, subprocess.run)
    ]
    return [(done.returncode, done.stdout, done.stderr) for done in started]


@pytest.mark.parametrize("is_session", [False, True])
def test_it_stands_in_the_same_world(tmp_path, is_session):
    found, wanted = both("-c", STANDING, "a", "b c", cwd=tmp_path, input="given", start_new_session=is_session)
    assert json.loads(found[1]) == json.loads(wanted[1])
    assert (found[0], found[2]) == (wanted[0], wanted[2]) == (0, "given\n")


def test_a_module_finds_what_is_beside_it(tmp_path):
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "__main__.py").write_text(
        "import sys, beside; print(sys.argv, sys.path[0], __name__, __spec__.name)"
    )
    (tmp_path / "beside.py").touch()
    found, wanted = both("-m", "program", "a", cwd=tmp_path)
    assert found == wanted
    assert wanted[0] == 0, wanted


@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
def test_it_ends_in_the_same_way(tmp_path, code):
    found, wanted = both("-c", code, cwd=tmp_path)
    assert found[:2] == wanted[:2]
    assert found[2].splitlines()[-1:] == wanted[2].splitlines()[-1:]


def test_it_is_waited_for_and_signalled_and_its_id_is_its_own_until_then():
    with warm.start(
        [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(3600)"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"up\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        os.kill(process.pid, signal.SIGTERM)
        wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
        assert process.wait(HANG_S) == process.returncode == -signal.SIGTERM


def test_what_is_said_to_python_itself_starts_it_cold():
    warm_one, cold = (
        warm.start([sys.executable, "-c", ""], env=environment(**more)) for more in ({}, {"PYTHONHASHSEED": "1"})
    )
    with warm_one, cold:
        assert (type(warm_one), type(cold)) == (
            warm.WarmProcess if sys.platform == "linux" else subprocess.Popen,
            subprocess.Popen,
        )
