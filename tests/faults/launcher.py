"""The command, but with a death at the n-th visit of a named point, or a wrong clock.

``python -m faults.launcher before-commit 3 -- batch …`` dies just before its third commit; ``clock -86400 -- resume …``
believes that it is yesterday. Nothing in the product knows of this.
"""

import functools
import importlib
import inspect
import itertools
import os
import signal
import sys
import threading
import time

from faults.points import place


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def wrap(point, number):
    """Put a death before or after the n-th call of the point's function, or a hang in its place."""
    side, module, path = place(point)
    owner = importlib.import_module(module)
    *folders, name = path.split(".")
    for folder in folders:
        owner = getattr(owner, folder)
    setattr(owner, name, deadly(getattr(owner, name), side=side, number=number))


def deadly(function, *, side, number):
    calls = itertools.count(1)

    @functools.wraps(function)
    def plain(*args, **kwargs):
        is_last = next(calls) == number
        if is_last and side == "before":
            die()
        if is_last and side == "within":
            threading.Event().wait()
        value = function(*args, **kwargs)
        if is_last:
            die()
        return value

    @functools.wraps(function)
    async def awaited(*args, **kwargs):
        is_last = next(calls) == number
        if is_last and side == "before":
            die()
        value = await function(*args, **kwargs)
        if is_last:
            die()
        return value

    return awaited if inspect.iscoroutinefunction(function) else plain


def set_clock(by_s):
    real = time.time
    time.time = lambda: real() + by_s


def main():
    word, number, dashes, *arguments = sys.argv[1:]
    assert dashes == "--", "launcher POINT N -- the command's own arguments"
    if word == "clock":
        set_clock(float(number))
    else:
        wrap(word, int(number))
    sys.argv[1:] = arguments
    importlib.import_module("graphmill.cli.main").main()


if __name__ == "__main__":
    main()
