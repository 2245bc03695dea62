"""The one bridge from plain code into the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from graphmill.core.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")


def blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Make the plain twin of an async function: the same, run to its end in a loop of its own.

    The first Ctrl-C cancels it, and it is raised as KeyboardInterrupt once everything is put in order.
    """
    name = function.__name__.removeprefix("a")

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if _has_running_loop():
            raise UsageError(f"a loop is already running here (a notebook, or an async function): use `await {function.__name__}(…)`")
        return asyncio.run(function(*args, **kwargs))

    run.__name__ = run.__qualname__ = name
    return run


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
