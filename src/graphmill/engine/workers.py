"""The one owner of every task that runs user code; it ends them, and abandons what will not end.

Not a TaskGroup: a function that swallows cancellation would hang it, the loop's shutdown and the interpreter's exit.
"""

from __future__ import annotations

import asyncio
import inspect
from asyncio import CancelledError, Future, Task
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

from graphmill.core.errors import InternalError
from graphmill.core.fresh import fresh
from graphmill.engine.deadlines import Deadlines
from graphmill.engine.threads import Call, Threads
from graphmill.engine.ticket import Ticket

AttemptEnded = Callable[[Ticket, Any, BaseException | None], None]

_current: ContextVar[Workers] = ContextVar("graphmill_workers")


class Attempt:
    """One try of one job: it ends exactly once, whatever its function does later."""

    __slots__ = ("call", "has_begun", "is_interrupted", "is_over", "task", "ticket")

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.task: Task[None] | None = None
        self.call: Call | None = None
        self.has_begun = False
        self.is_interrupted = False
        self.is_over = False


class Workers:
    """Runs attempts: async functions as tasks on the loop, plain ones in daemon threads."""

    def __init__(self, ended: AttemptEnded, *, grace_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = ended
        self._grace_s = grace_s
        self._grace: Deadlines[Attempt] = Deadlines(self._loop, grace_s, self._abandon)
        self._threads = Threads(self._loop, "graphmill")
        self._others: set[Task[Any]] = set()
        self._context = copy_context()
        self._context.run(_current.set, self)
        self._last_graph: tuple[object, bool] = (None, False)
        self._abandoned_tasks = 0

    @property
    def stuck(self) -> int:
        """Abandoned attempts that still run: tasks that swallow cancellation, threads that do not return."""
        return self._abandoned_tasks + self._threads.stuck

    def begin(self, ticket: Ticket) -> None:
        """Start an attempt of a job."""
        attempt = ticket.attempt = Attempt(ticket)
        if self._runs_on_loop(ticket.job.graph):
            attempt.task = self._task(self._on_loop(attempt))
        else:
            attempt.call = self._threads.submit(partial(self._context.copy().run, _called, attempt), partial(self._thread_ended, attempt))

    def interrupt(self, attempt: Attempt) -> None:
        """End an attempt now: a task is cancelled and has its grace, a thread can only be abandoned."""
        if attempt.is_over or attempt.is_interrupted:
            return
        attempt.is_interrupted = True
        if attempt.task is None:
            self._abandon(attempt)
        elif attempt.task.cancel():
            if attempt.has_begun:
                self._grace.set(attempt, self._loop.time())
            else:  # cancelled before its first step, its body will never run
                self._end(attempt, None, CancelledError())

    def spawn(self, work: Coroutine[Any, Any, None]) -> Task[None]:
        """Run a source or an observer beside the attempts; it lives at most until the workers close."""
        task = self._task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)
        return task

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """Call a plain function in a thread; cancelling the future abandons the thread."""
        future: Future[Any] = self._loop.create_future()
        call = self._threads.submit(partial(self._context.copy().run, function), partial(_set, future))
        future.add_done_callback(lambda done: self._threads.abandon(call) if done.cancelled() else None)
        return future

    async def close(self) -> None:
        """Cancel what is left, wait for it within the grace, abandon the rest."""
        others = set(self._others)
        for task in others:
            task.cancel()
        if others:
            _, stubborn = await asyncio.wait(others, timeout=self._grace_s)
            for task in stubborn:
                self._let_go(task)
        self._grace.close()
        await self._threads.close(self._grace_s)

    def _task(self, work: Coroutine[Any, Any, None]) -> Task[None]:
        # Not loop.create_task: an eager task factory would run user code here, and start job within job within job.
        return Task(work, loop=self._loop, context=self._context.copy())

    def _runs_on_loop(self, graph: object) -> bool:
        if self._last_graph[0] is not graph:
            self._last_graph = (graph, is_async(graph))
        return self._last_graph[1]

    async def _on_loop(self, attempt: Attempt, awaitable: Any = None) -> None:
        attempt.has_begun = True
        value, error = None, None
        try:
            value = await (_called(attempt) if awaitable is None else awaitable)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # noqa: BLE001  a surprise in user code is that attempt's outcome
            error = raised
        self._end(attempt, value, error)

    def _thread_ended(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        if error is None and inspect.isawaitable(value):  # such as the coroutine that a lambda made
            attempt.task = self._task(self._on_loop(attempt, value))
        else:
            self._end(attempt, value, error)

    def _end(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        if attempt.is_over:
            self._abandoned_tasks -= attempt.task is not None
            return
        attempt.is_over = True
        if attempt.is_interrupted:
            self._grace.clear(attempt)
        self._ended(attempt.ticket, value, error)

    def _abandon(self, attempt: Attempt) -> None:
        if attempt.task is not None:
            self._abandoned_tasks += 1
            self._let_go(attempt.task)
        elif attempt.call is not None:
            self._threads.abandon(attempt.call)
        self._end(attempt, None, CancelledError())

    @staticmethod
    def _let_go(task: Task[Any]) -> None:
        """Make the loop forget a task that will not end, so that its shutdown does not wait for it forever."""
        asyncio._unregister_task(task)
        task._log_destroy_pending = False  # type: ignore[attr-defined]


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call user code from inside a job: an async function on the loop, a plain one in a thread of the run."""
    if is_async(function):
        return await function(*args, **kwargs)
    workers = _current.get(None)
    if workers is None:
        raise InternalError("call() works only inside a job of a run")
    value = await workers.submit(partial(function, *args, **kwargs))
    return await value if inspect.isawaitable(value) else value


def is_async(function: object) -> bool:
    """Tell whether calling this gives a coroutine: an async function, a partial of one, an object whose call is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _called(attempt: Attempt) -> Any:
    return attempt.ticket.job.graph(fresh(attempt.ticket.job.input))


def _set(future: Future[Any], value: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)  # a future can not hold it
