"""What a test has left behind: child processes, threads, descriptors."""

import os
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import psutil

from support import warm

HANG_S = 60.0


@contextmanager
def nothing_left():
    """Hold that there are no more children, threads and descriptors after than before."""
    before = _remains()
    yield
    left = _remains() - before
    assert left == set(), f"left behind: {sorted(map(str, left))}"


def _remains():
    children = {
        ("child", child.pid) for child in psutil.Process().children(recursive=True) if not _is_of_nursery(child)
    }
    threads = {("thread", thread.name, thread.ident) for thread in threading.enumerate()}
    return children | threads | {("descriptor", name) for name in _descriptors() - warm.DESCRIPTORS}


def _is_of_nursery(child):
    """Tell whether it is a nursery, or what has ended in one: that is reaped there."""
    try:
        return child.pid in warm.PIDS or (child.ppid() in warm.PIDS and child.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _descriptors():
    folder = "/proc/self/fd" if Path("/proc/self/fd").exists() else "/dev/fd"
    found = set()
    for name in os.listdir(folder):  # noqa: PTH208
        try:
            os.fstat(int(name))
        except OSError:  # the one that listed them
            continue
        found.add(name)
    return found


def is_alive(pid):
    """Tell whether a process still does something; one that only its parent has yet to reap does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition):
    """Look again and again until something holds; for what other processes do, which tell nobody."""
    deadline = time.monotonic() + HANG_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.01)
    return found


def pids_in(folder, count=1):
    """Wait for so many processes to have written their numbers; give them."""
    return wait_until(lambda: _all_or_none([int(path.read_text()) for path in Path(folder).glob("*.pid")], count))


def _all_or_none(found, count):
    return found if len(found) >= count else []
