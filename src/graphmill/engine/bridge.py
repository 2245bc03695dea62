"""From plain code into the event loop."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, Self, TypeVar
from weakref import WeakKeyDictionary

from graphmill.core.errors import UsageError

P = ParamSpec("P")
_said_if_interrupted: ContextVar[list[str] | None] = ContextVar("said_if_interrupted", default=None)


def say_if_interrupted(lines: Sequence[str]) -> None:
    """Print these lines on standard error if it is Ctrl-C that ends the call of a plain function, once it has ended."""
    said = _said_if_interrupted.get()
    if said is not None:
        said.extend(lines)


T = TypeVar("T")


def blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return the plain version of an async function: it runs to its end in a loop of its own.

    Ctrl-C cancels it, and raises KeyboardInterrupt once everything has ended in order.
    """
    name = function.__name__.removeprefix("a")

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if _has_running_loop():
            raise UsageError(
                "an event loop is already running (in a notebook or async function); use `await "
                f"{function.__name__}(…)`"
            )
        with asyncio.Runner() as runner, _Interrupts(loop := runner.get_loop()) as interrupts:
            loop.set_default_executor(_DaemonExecutor())
            said: list[str] = []
            token = _said_if_interrupted.set(said)
            try:
                # Not runner.run, which hides its task: a coroutine that notes it would be one more at every wake-up.
                task = loop.create_task(function(*args, **kwargs))
                interrupts.task = task
                return loop.run_until_complete(task)
            except asyncio.CancelledError:
                if interrupts.count:
                    sys.stderr.write("".join(f"{line}\n" for line in said))
                    raise KeyboardInterrupt from None
                raise
            finally:
                _said_if_interrupted.reset(token)

    run.__name__ = run.__qualname__ = name
    return run


class _Interrupts:
    """Turns the first two SIGINTs into cancellations of ``task``.

    Asyncio raises the second one wherever the program happens to be. Here only the third one is raised, for a loop that
    user code blocks.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.task: asyncio.Task[Any] | None = None
        self._is_ours = False
        self.count = 0

    def __enter__(self) -> Self:
        is_main = threading.current_thread() is threading.main_thread()
        self._is_ours = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._is_ours:
            signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 2 or self.task is None:
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(self.task.cancel)


class _DaemonExecutor(ThreadPoolExecutor):
    """For ``asyncio.to_thread`` in our loop: a daemon thread per call, so that no shutdown waits for a running one."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: WeakKeyDictionary[threading.Thread, Future[Any]] = WeakKeyDictionary()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in a thread of its own."""
        future: Future[Any] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    value = function(*args, **kwargs)
                except BaseException as error:  # noqa: BLE001  raised where it is awaited
                    future.set_exception(error)
                else:
                    future.set_result(value)

        thread = threading.Thread(target=work, name="graphmill-to-thread", daemon=True)
        self._calls[thread] = future
        thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """Join the threads whose call is over."""
        del wait, cancel_futures
        for thread, future in list(self._calls.items()):
            if future.done():
                thread.join()


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
