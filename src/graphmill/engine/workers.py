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
from typing import Any, Protocol

from graphmill.core.errors import UsageError
from graphmill.core.json import fresh
from graphmill.engine.deadlines import Deadlines
from graphmill.engine.errands import Errands
from graphmill.engine.failures import Reported, failure_of, kind_of
from graphmill.engine.frame import Frame
from graphmill.engine.frame import current as current_frame
from graphmill.engine.policy import Policy
from graphmill.engine.processes.pool import Processes
from graphmill.engine.program import Step
from graphmill.engine.shared import Shared
from graphmill.engine.threads import Threads
from graphmill.engine.tracing import enter

Ended = Callable[
    [Any, Any, BaseException | None], None
]  # with the ticket of the attempt's frame, its value or its error

_current: ContextVar[Workers] = ContextVar("graphmill_workers")


class Attempt(Protocol):
    """One try of one job under way: it tells its end exactly once, whatever its function does later."""

    def interrupt(self) -> None:
        """End it now, or as soon as it lets itself be ended."""


class _Interrupted(Protocol):
    """What has its grace to end."""

    def abandon(self) -> None:
        """Wait no longer for it."""


class Workers:
    """Runs attempts: async functions as tasks on the loop, plain ones in daemon threads; with isolation all in worker processes.

    ``abandoned`` is called after each attempt that had to be given up while its function still ran; ``accept`` with every
    output where it was made: what it gives is the attempt's value, what it raises its failure.
    """

    def __init__(self, policy: Policy, *, accept: Callable[[Any], Any] | None, abandoned: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self._owner = asyncio.current_task()
        self.abandoned = abandoned
        self.grace: Deadlines[_Interrupted] = Deadlines(self.loop, policy.grace_s, lambda each: each.abandon())
        self.errands = Errands(self.grace)
        self.threads = Threads(self.loop, "graphmill")
        self.shared = Shared()
        self.accept = accept
        self._processes: Processes | None = None
        if policy.isolation == "process":
            self._processes = Processes(self.loop, accept=accept, memory_bytes=policy.guards.worker_memory_bytes)
        self._step_processes: Processes | None = None
        self.stuck_tasks = 0
        self.grace_s = policy.grace_s
        self._others: set[Task[Any]] = set()
        self._context = copy_context()
        self._context.run(_current.set, self)
        self._last_graph: tuple[object, bool] = (None, False)

    def hasten(self, grace_s: float) -> None:
        """Give what is interrupted no longer than this from now on."""
        self.grace_s = min(self.grace_s, grace_s)
        self.grace.shorten(grace_s)

    @property
    def is_left(self) -> bool:
        """Whether the task that the run belongs to was cancelled, as asyncio does with all of them when it closes a loop."""
        return self._owner is not None and (self._owner.done() or self._owner.cancelling() > 0)

    @property
    def stuck(self) -> int:
        """Abandoned attempts that still run: tasks that swallow cancellation, threads that do not return."""
        return self.stuck_tasks + self.threads.stuck

    def begin(
        self, graph: Callable[[Any], Any], value: Any, ended: Ended, *, frame: Frame, is_suspect: bool = False
    ) -> Attempt:
        """Start an attempt; ``ended`` is told its value or error, once, on the loop. A suspect gets a worker process that is new."""
        if self._processes is not None:
            return self._processes.begin(graph, value, partial(ended, frame.ticket), is_suspect=is_suspect)
        if self._last_graph[0] is not graph:
            self._last_graph = (graph, is_async(graph))
        if self._last_graph[1]:
            return LoopAttempt(self, lambda: graph(fresh(value)), ended, frame, self.accept)
        return ThreadAttempt(self, graph, value, ended, frame)

    def begin_step(
        self,
        step: Step,
        ended: Ended,
        *,
        frame: Frame,
        accept: Callable[[Any], Any] | None,
        is_suspect: bool,
        last: Attempt | None = None,
    ) -> Attempt:
        """Start an attempt of a step: a task on the loop, or a call in a worker process if the step asks for one.

        ``last`` is an attempt that has just told its end; its task goes on with this one if it can.
        """
        if step.rules.isolation is None:
            if isinstance(last, LoopAttempt) and last.go_on(step.act, frame):
                return last
            return LoopAttempt(self, step.act, ended, frame, accept)
        if self._step_processes is None:
            self._step_processes = Processes(self.loop, accept=accept, memory_bytes=None)
        return self._step_processes.begin(*step.call(), partial(ended, frame.ticket), is_suspect=is_suspect)

    def task(self, work: Coroutine[Any, Any, None]) -> Task[None]:
        """Make a task with a context of its own."""
        # Not loop.create_task: an eager task factory would run user code here, and start job within job within job.
        return Task(work, loop=self.loop, context=self._context.copy())

    def in_context(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """Give a function that runs in a context of its own."""
        return partial(self._context.copy().run, function)

    def spawn(self, work: Coroutine[Any, Any, None]) -> Task[None]:
        """Run a source or a callback beside the attempts; it lives at most until the workers close."""
        task = self.task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)
        return task

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """Call a plain function in a thread; cancelling the future abandons the thread."""
        future: Future[Any] = self.loop.create_future()
        call = self.threads.submit(self.in_context(function), partial(_set, future))
        future.add_done_callback(lambda done: done.cancelled() and self.threads.abandon(call))
        return future

    async def close(self) -> None:
        """Cancel what is left, wait for it within the grace, abandon the rest; then close what attempts have shared."""
        others = set(self._others)
        for task in others:
            _cancel(task)
        self.grace.close()
        self.threads.dismiss()
        pools = [pool for pool in (self._processes, self._step_processes) if pool is not None]
        for pool in pools:
            pool.dismiss()
        try:
            if others:
                await asyncio.wait(others, timeout=self.grace_s)
            await self.threads.wait_gone(self.grace_s)
        finally:
            try:
                for pool in pools:
                    await pool.close(self.grace_s)
            finally:
                self.errands.close()
                await self.shared.close(self.grace_s)


class LoopAttempt:
    """An attempt as a task. Interrupted, it is cancelled and has its grace; then it is abandoned."""

    __slots__ = ("_accept", "_act", "_ended", "_frame", "_is_interrupted", "_is_over", "_task", "_work", "_workers")

    def __init__(
        self,
        workers: Workers,
        act: Callable[[], Any],
        ended: Ended,
        frame: Frame,
        accept: Callable[[Any], Any] | None,
    ) -> None:
        self._workers = workers
        self._ended = ended
        self._frame = frame
        self._accept = accept
        self._is_interrupted = False
        self._is_over = False
        self._act: Callable[[], Any] | None = act
        self._work = self._run()
        self._task = workers.task(self._work)
        self._task.add_done_callback(self._never_begun)

    def interrupt(self) -> None:
        """Cancel the task."""
        if self._is_over or self._is_interrupted:
            return
        self._is_interrupted = True
        _cancel(self._task)
        self._workers.grace.set(self, self._workers.loop.time())

    def abandon(self) -> None:
        """Wait no longer; what the function still returns is fenced off."""
        if self._task.done() or inspect.getcoroutinestate(self._work) == inspect.CORO_CREATED:
            return  # cancelled before its first step; its end is on the way
        self._workers.stuck_tasks += 1
        self._end(None, CancelledError())
        self._workers.abandoned()

    def go_on(self, act: Callable[[], Any], frame: Frame) -> bool:
        """Let the task of an attempt that is telling its end make another; tell whether it can."""
        if not self._is_over or self._is_interrupted:
            return False
        self._act, self._frame = act, frame
        self._is_over = False
        return True

    async def _run(self) -> None:
        self._task.remove_done_callback(self._never_begun)
        while self._act is not None:
            act, self._act = self._act, None
            output, error = None, None
            current_frame.set(self._frame)
            if self._frame.span is not None:
                enter(self._frame.span)
            try:
                made = await act()
                output = made if self._accept is None else self._accept(made)
            except KeyboardInterrupt as raised:
                self._end(None, raised)
                raise
            except BaseException as raised:  # noqa: BLE001  a surprise in user code is that attempt's outcome
                error = raised
            self._end(output, error)
            output = error = None  # an error holds the frames that it came through, and this one would hold it

    def _never_begun(self, _task: Task[None]) -> None:
        """End a task that was cancelled, by us or by anybody, before its first step: its body never runs."""
        self._end(None, CancelledError())

    def _end(self, output: Any, error: BaseException | None) -> None:
        if self._is_over:
            self._workers.stuck_tasks -= 1
            return
        self._is_over = True
        if self._is_interrupted:
            self._workers.grace.clear(self)
        self._ended(self._frame.ticket, output, error)


class ThreadAttempt:
    """An attempt in a thread. A thread can not be stopped: interrupted, the attempt is abandoned at once."""

    __slots__ = ("_awaited", "_call", "_ended", "_frame", "_workers")

    def __init__(self, workers: Workers, graph: Callable[[Any], Any], value: Any, ended: Ended, frame: Frame) -> None:
        self._workers = workers
        self._ended = ended
        self._awaited: LoopAttempt | None = None
        self._frame = frame
        self._call = workers.threads.submit(workers.in_context(lambda: self._output(graph, value)), self._returned)

    def interrupt(self) -> None:
        """Leave the thread alone with its function."""
        if self._awaited is not None:
            self._awaited.interrupt()
        elif self._workers.threads.abandon(self._call):
            self._ended(self._frame.ticket, None, CancelledError())
            self._workers.abandoned()

    def _output(self, graph: Callable[[Any], Any], value: Any) -> Any:
        current_frame.set(self._frame)
        if self._frame.span is not None:
            enter(self._frame.span)
        output = graph(fresh(value))
        if self._workers.accept is None or _is_awaitable(output):
            return output
        return self._workers.accept(output)

    def _returned(self, output: Any, error: BaseException | None) -> None:
        if _is_awaitable(output):  # such as the coroutine that a lambda made
            self._awaited = LoopAttempt(self._workers, lambda: output, self._ended, self._frame, self._workers.accept)
        else:
            self._ended(self._frame.ticket, output, error)


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call user code from inside a job: an async function on the loop, a plain one in a thread of the run."""
    if is_async(function):
        return await function(*args, **kwargs)
    workers = _current.get(None)
    if workers is None:
        raise UsageError("a workflow runs as a job of a batch: gm.batch(graph, [item])")
    # In the context of where it is called, not of where the run began.
    value = await workers.submit(partial(copy_context().run, _plainly, function, *args, **kwargs))
    return await value if _is_awaitable(value) else value


def _plainly(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a plain function; no Ctrl-C strikes in a thread, so a KeyboardInterrupt there is its own failure and ends no loop."""
    try:
        return function(*args, **kwargs)
    except KeyboardInterrupt as error:
        raise Reported(failure_of(error, kind_of(error))) from error


def is_async(function: object) -> bool:
    """Tell whether calling this gives a coroutine: an async function, a partial of one, an object whose call is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _is_awaitable(value: Any) -> bool:
    try:
        return inspect.isawaitable(value)
    except Exception:  # noqa: BLE001  asking a user's object what it is runs its code
        return False


def _cancel(task: Task[Any]) -> None:
    """Cancel a task and make the loop forget it, so that no shutdown waits forever for one that will not end."""
    task.cancel()
    asyncio._unregister_task(task)
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def _set(future: Future[Any], value: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(
            RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
        )  # a future can not hold it
