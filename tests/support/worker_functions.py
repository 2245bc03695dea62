"""Functions that worker processes import by name; what they leave for the test is in files of a folder."""

import atexit
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import graphmill as gm

seen = contextvars.ContextVar("seen", default=None)


class Refused(Exception):  # noqa: N818
    def __init__(self, code, *, hint):
        self.code = code
        self.hint = hint
        super().__init__(f"refused with {code}")

    def __reduce__(self):
        return _refused, (self.code, self.hint)


def _refused(code, hint):
    return Refused(code, hint=hint)


class Sealed(Exception):  # noqa: N818
    """Can be written, can not be read."""

    def __init__(self, first, second):
        super().__init__("sealed")


class Unreadable:
    def __reduce__(self):
        return explode, ("never",)


def explode(message):
    raise RuntimeError(message)


def same(item):
    return item


async def same_later(item):
    return item


def promised(item):
    return same_later(item)


def size(item):
    return len(item)


def grown(count):
    return b"x" * count


def wrong(item):
    raise ValueError(f"bad {item}")


async def wrong_later(item):
    raise ValueError(f"bad {item}")


def refused(item):
    raise Refused(item, hint="ask again")


def sealed(item):
    raise Sealed(1, 2)


def throttled(item):
    raise gm.Throttled("slow down", retry_after_s=1000.0)


def surprise(name):
    """Raise what ends a program elsewhere, or give the worker's pid."""
    if name == "exit":
        sys.exit(3)
    if name == "interrupt":
        raise KeyboardInterrupt
    if name == "recursion":
        surprise(name)
    if name == "memory":
        raise MemoryError
    return os.getpid()


async def surprise_later(name):
    return surprise(name)


def end(how):
    if how == "exit":
        os._exit(3)
    if how == "closed":
        os.closerange(3, 256)
    elif how is not None:
        os.kill(os.getpid(), signal.Signals[how])
    return "lived"


def end_once(folder):
    """Kill the worker at the first attempt."""
    mark = Path(folder) / "killed"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "lived"


def knock(folder):
    """Find the door closed at the first attempt."""
    mark = Path(folder) / "knocked"
    if not mark.exists():
        mark.touch()
        raise ConnectionRefusedError("closed")
    return "sent"


def write_pid(folder, pid):
    """Write it whole or not at all."""
    partial = Path(folder) / f".{pid}"
    partial.write_text(str(pid))
    partial.rename(Path(folder) / f"{pid}.pid")


def spin(folder):
    """Never return, whatever signal comes that can be ignored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    write_pid(folder, os.getpid())
    while True:
        pass


def spin_once(folder):
    return "second" if list(Path(folder).glob("*.pid")) else spin(folder)


def start_child(folder):
    """Return, but leave a child behind."""
    write_pid(folder, subprocess.Popen(["sleep", "3600"]).pid)
    return "returned"


def start_child_and_spin(folder):
    start_child(folder)
    spin(folder)


def swell(count):
    """Hold so much memory until somebody objects."""
    held = bytearray(b"x") * count
    threading.Event().wait()
    return held


def let_child_swell(count):
    subprocess.run(
        [sys.executable, "-c", f"held = bytearray(b'x') * {count}; import time; time.sleep(3600)"], check=False
    )


def say(item):
    print(f"said {item}")  # noqa: T201
    print(f"warned {item}", file=sys.stderr)  # noqa: T201


def read_input(item):
    return sys.stdin.read()


def fork(item):
    """Come back twice."""
    os.fork()
    return item


def surroundings(item):
    return str(Path.cwd()), os.environ.get("GRAPHMILL_TEST_MARK"), sys.path


def remember(item):
    before = seen.get()
    seen.set(item)
    return before


def change(item):
    item["changed"] = True
    return item


def give_lambda(item):
    return lambda: item


def give_unreadable(item):
    return Unreadable()


def note_exit(folder):
    atexit.register((Path(folder) / "left").touch)


def pid_of(item):
    return os.getpid()


class Tools:
    @classmethod
    def made(cls, item):
        return cls.__name__, item

    @staticmethod
    def doubled(item):
        return item * 2

    def bound(self, item):
        return item

    def __call__(self, item):
        return item


def leaves_a_bomb(item):
    """Return, and let the process die under whatever it does next."""
    if item % 2:
        threading.Timer(0.02, os._exit, [9]).start()
    else:
        time.sleep(0.05)
    return item


class Interrupting:
    def __reduce__(self):
        raise KeyboardInterrupt
