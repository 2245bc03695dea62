"""Runs the user's code. This module alone owns its tasks: it cancels them, and abandons those that do not end.

Not a TaskGroup: a function that swallows cancellation would hang it, the loop's shutdown and the interpreter's exit.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from asyncio import CancelledError, Future, Task
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future as ThreadFuture
from concurrent.futures import InvalidStateError
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from threading import Lock
from typing import Any, Protocol, TypeAlias, TypeVar

from graphmill.core.errors import UsageError, describe_error
from graphmill.core.json import fresh
from graphmill.engine.attempts.processes.pool import ProcessAttempt, Processes
from graphmill.engine.attempts.threads import Threads
from graphmill.engine.failures import Reported, failure_of, kind_of
from graphmill.engine.jobs.context import AttemptContext, current_context
from graphmill.engine.jobs.program import Step
from graphmill.engine.jobs.state import AttemptState
from graphmill.engine.monitor.tracing import enter_span
from graphmill.engine.policy import Policy
from graphmill.engine.results.recorder import Recorder
from graphmill.engine.timers import Deadlines

log = logging.getLogger("graphmill")

Attempt: TypeAlias = "LoopAttempt | ThreadAttempt | ProcessAttempt"  # it reports its end exactly once
_Interrupted: TypeAlias = "LoopAttempt | _EndingCalls"
AttemptEnded = Callable[[AttemptState, Any, BaseException | None], None]  # with its value or its error
C = TypeVar("C", bound="Closable")
T = TypeVar("T")

_current: ContextVar[Workers] = ContextVar("graphmill_workers")


class Workers:
    """Runs attempts: async functions as tasks, plain ones in daemon threads, isolated ones in processes.

    ``abandoned`` is called after each attempt that was given up while its function still ran. The recorder's ``accept``
    is called with every output where it was made: what it returns is the attempt's value, what it raises its failure.
    """

    def __init__(self, policy: Policy, recorder: Recorder, *, abandoned: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self._owner = asyncio.current_task()
        self.grace = Grace(self.loop, policy.grace_s, abandoned)
        self.thread_calls = ThreadCalls(self.grace.periods)
        self.threads = Threads(self.loop, "graphmill")
        self.shared = SharedResources()
        self.accept = recorder.accept
        self._accept_step = recorder.accept if recorder.is_recording else None  # else only the job's output counts
        self._pools = ProcessPools(self.loop, policy, accept=self.accept)
        self._others: set[Task[Any]] = set()
        self._context = copy_context()
        self._context.run(_current.set, self)
        self._last_graph: tuple[object, bool] = (None, False)

    def hasten(self, grace_s: float) -> None:
        """Shorten the grace period of interrupted attempts."""
        self.grace.shorten(grace_s)

    @property
    def is_owner_cancelled(self) -> bool:
        """Whether the task that owns the run was cancelled, as asyncio does with all tasks when it closes a loop."""
        return self._owner is not None and (self._owner.done() or self._owner.cancelling() > 0)

    @property
    def stuck(self) -> int:
        """Abandoned attempts that still run: tasks that swallow cancellation, threads that do not return."""
        return self.grace.stuck_tasks + self.threads.stuck

    def begin(
        self,
        graph: Callable[[Any], Any],
        value: Any,
        ended: AttemptEnded,
        *,
        context: AttemptContext,
        is_suspect: bool = False,
    ) -> Attempt:
        """Start an attempt; ``ended`` gets its value or error, once, on the loop. A suspect gets a new process."""
        if self._pools.of_jobs is not None:
            return self._pools.of_jobs.begin(graph, value, partial(ended, context.attempt), is_suspect=is_suspect)
        if self._last_graph[0] is not graph:
            self._last_graph = (graph, is_async(graph))
        if self._last_graph[1]:
            return LoopAttempt(self, lambda: graph(fresh(value)), ended, context, self.accept)
        return ThreadAttempt(self, graph, value, ended, context)

    def begin_step(
        self, step: Step, ended: AttemptEnded, *, context: AttemptContext, is_suspect: bool, reuse: Attempt | None
    ) -> Attempt:
        """Start an attempt of a step: a task on the loop, or a call in a worker process if its rules ask for one.

        ``reuse`` is an attempt that is reporting its end just now: its task runs this one too, if it can.
        """
        if step.rules.isolation is None:
            if isinstance(reuse, LoopAttempt) and reuse.continue_with(step.act, context):
                return reuse
            return LoopAttempt(self, step.act, ended, context, self._accept_step)
        pool = self._pools.of_steps or self._pools.open_for_steps(self._accept_step)
        function, value = step.call()
        return pool.begin(
            function,
            value,
            partial(ended, context.attempt),
            is_suspect=is_suspect,
            memory_bytes=step.rules.memory_bytes,
        )

    def task(self, work: Coroutine[Any, Any, None]) -> Task[None]:
        """Make a task with a context of its own."""
        # Not loop.create_task: an eager task factory would run user code here, and start job within job within job.
        return Task(work, loop=self.loop, context=self._context.copy())

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function in the context in which the run was started."""
        return self._context.run(function, *args)

    def in_context(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """Wrap a function so that it runs in a context of its own."""
        return partial(self._context.copy().run, function)

    def spawn(self, work: Coroutine[Any, Any, None]) -> Task[None]:
        """Run a source or a hook beside the attempts, at most until the workers close."""
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
        """Cancel what is left, wait at most the grace period, abandon the rest; then close what attempts shared."""
        others = set(self._others)
        for task in others:
            _cancel(task)
        self.grace.periods.close()
        self.threads.dismiss()
        self._pools.dismiss()
        try:
            if others:
                await asyncio.wait(others, timeout=self.grace.seconds)
            await self.threads.wait_gone(self.grace.seconds)
        finally:
            try:
                await self._pools.close(self.grace.seconds)
            finally:
                self.thread_calls.close()
                await self.shared.close(self.grace.seconds)


class ProcessPools:
    """The worker processes of a run: those of whole jobs, if it isolates them, and those of steps that ask for one."""

    __slots__ = ("_loop", "_memory_bytes", "of_jobs", "of_steps")

    def __init__(self, loop: asyncio.AbstractEventLoop, policy: Policy, *, accept: Callable[[Any], Any] | None) -> None:
        self._loop = loop
        self._memory_bytes = policy.guards.worker_memory_bytes
        self.of_jobs = self._open(accept) if policy.isolation == "process" else None
        self.of_steps: Processes | None = None

    def open_for_steps(self, accept: Callable[[Any], Any] | None) -> Processes:
        """Make the pool of steps; at the first one that asks for it."""
        self.of_steps = self._open(accept)
        return self.of_steps

    def dismiss(self) -> None:
        """End idle processes in order; kill busy ones."""
        for pool in (self.of_jobs, self.of_steps):
            if pool is not None:
                pool.dismiss()

    async def close(self, grace_s: float) -> None:
        """Wait at most the grace period for each pool's processes to end; kill the rest."""
        for pool in (self.of_jobs, self.of_steps):
            if pool is not None:
                await pool.close(grace_s)

    def _open(self, accept: Callable[[Any], Any] | None) -> Processes:
        return Processes(self._loop, accept=accept, memory_bytes=self._memory_bytes)


class Grace:
    """How long interrupted attempts may take to end. What has not ended by then is abandoned, and may be stuck."""

    __slots__ = ("abandoned", "periods", "seconds", "stuck_tasks")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, abandoned: Callable[[], None]) -> None:
        self.seconds = seconds
        self.periods: Deadlines[_Interrupted] = Deadlines(loop, seconds, lambda each: each.abandon())
        self.abandoned = abandoned
        self.stuck_tasks = 0

    def shorten(self, seconds: float) -> None:
        """Shorten it, also for attempts that were interrupted already."""
        self.seconds = min(self.seconds, seconds)
        self.periods.shorten(seconds)


class LoopAttempt:
    """An attempt as a task. Interrupted, it is cancelled and, if it has not ended after the grace period, abandoned."""

    __slots__ = ("_accept", "_act", "_context", "_ended", "_is_interrupted", "_is_over", "_task", "_work", "_workers")

    def __init__(
        self,
        workers: Workers,
        act: Callable[[], Any],
        ended: AttemptEnded,
        context: AttemptContext,
        accept: Callable[[Any], Any] | None,
    ) -> None:
        self._workers = workers
        self._ended = ended
        self._context = context
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
        self._workers.grace.periods.set(self, self._workers.loop.time())

    def abandon(self) -> None:
        """Stop waiting; what the function still returns is ignored."""
        if self._task.done() or inspect.getcoroutinestate(self._work) == inspect.CORO_CREATED:
            return  # cancelled before its first step; its end is on the way
        self._workers.grace.stuck_tasks += 1
        self._end(None, CancelledError())
        self._workers.grace.abandoned()

    def continue_with(self, act: Callable[[], Any], context: AttemptContext) -> bool:
        """Run another attempt in the task of this one, which is reporting its end; return whether that is possible."""
        if not self._is_over or self._is_interrupted:
            return False
        self._act, self._context = act, context
        self._is_over = False
        return True

    async def _run(self) -> None:
        self._task.remove_done_callback(self._never_begun)
        while self._act is not None:
            act, self._act = self._act, None
            output, error = None, None
            current_context.set(self._context)
            if self._context.span is not None:
                enter_span(self._context.span)
            try:
                made = await act()
                output = made if self._accept is None else self._accept(made)
            except KeyboardInterrupt as raised:
                self._end(None, raised)
                raise
            except BaseException as raised:  # noqa: BLE001  whatever user code raises is the outcome
                error = raised
            self._end(output, error)
            output = error = None  # an error holds the frames that it came through, and this one would hold it

    def _never_begun(self, _task: Task[None]) -> None:
        """End a task that was cancelled, by us or by anybody, before its first step: its body never runs."""
        self._end(None, CancelledError())

    def _end(self, output: Any, error: BaseException | None) -> None:
        if self._is_over:
            self._workers.grace.stuck_tasks -= 1
            return
        self._is_over = True
        if self._is_interrupted:
            self._workers.grace.periods.clear(self)
        self._ended(self._context.attempt, output, error)


class ThreadAttempt:
    """An attempt in a thread. A thread can't be stopped: interrupted, the attempt is abandoned at once."""

    __slots__ = ("_awaited", "_call", "_context", "_ended", "_workers")

    def __init__(
        self, workers: Workers, graph: Callable[[Any], Any], value: Any, ended: AttemptEnded, context: AttemptContext
    ) -> None:
        self._workers = workers
        self._ended = ended
        self._awaited: LoopAttempt | None = None
        self._context = context
        self._call = workers.threads.submit(workers.in_context(lambda: self._output(graph, value)), self._returned)

    def interrupt(self) -> None:
        """Leave the thread alone with its function."""
        if self._awaited is not None:
            self._awaited.interrupt()
        elif self._workers.threads.abandon(self._call):
            self._ended(self._context.attempt, None, CancelledError())
            self._workers.grace.abandoned()

    def _output(self, graph: Callable[[Any], Any], value: Any) -> Any:
        current_context.set(self._context)
        if self._context.span is not None:
            enter_span(self._context.span)
        output = graph(fresh(value))
        if self._workers.accept is None or _is_awaitable(output):
            return output
        return self._workers.accept(output)

    def _returned(self, output: Any, error: BaseException | None) -> None:
        if _is_awaitable(output):  # such as the coroutine that a lambda made
            self._awaited = LoopAttempt(self._workers, lambda: output, self._ended, self._context, self._workers.accept)
        else:
            self._ended(self._context.attempt, output, error)


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call user code from inside a job: an async function on the loop, a plain one in a thread of the run."""
    if is_async(function):
        return await function(*args, **kwargs)
    workers = _current.get(None)
    if workers is None:
        raise UsageError("a workflow runs as a job of a batch: gm.batch(graph, [item])")
    # In the context of where it is called, not of where the run began.
    value = await workers.submit(partial(copy_context().run, _plainly, function, *args, **kwargs))
    if _is_awaitable(value):
        return await value
    return value


def _plainly(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a plain function. Ctrl-C never interrupts a thread: a KeyboardInterrupt there is its own failure."""
    try:
        return function(*args, **kwargs)
    except KeyboardInterrupt as error:
        raise Reported(failure_of(error, kind_of(error))) from error


def is_async(function: object) -> bool:
    """Whether calling this returns a coroutine: an async function, a partial of one, an object with an async call."""
    call = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _is_awaitable(value: Any) -> bool:
    try:
        return inspect.isawaitable(value)
    except Exception:  # noqa: BLE001  asking a user's object what it is runs its code
        return False


def _cancel(task: Task[Any]) -> None:
    """Cancel a task and make the loop forget it: no shutdown must wait forever for one that doesn't end."""
    task.cancel()
    asyncio._unregister_task(task)
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def _set(future: Future[Any], value: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(value)
    else:
        # A future can't hold a StopIteration.
        future.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)


class ThreadCalls:
    """Calls that threads asked the loop to make for their attempt; they end with it, so it pays for them all."""

    def __init__(self, grace: Deadlines[Any]) -> None:
        self.running: dict[AttemptContext, set[Task[None]]] = {}
        self._grace = grace
        self._awaited: set[ThreadFuture[Any]] = set()
        self._is_closed = False
        self._lock = Lock()

    def expect(self, future: ThreadFuture[Any]) -> None:
        """Note what a thread waits for: it gets a CancelledError when the workers close. From any thread."""
        with self._lock:
            if self._is_closed:
                raise CancelledError
            self._awaited.add(future)
        future.add_done_callback(self._awaited.discard)

    def close(self) -> None:
        """Release waiting threads: the loop may never run again."""
        with self._lock:
            self._is_closed = True
            left = list(self._awaited)
        for future in left:
            with suppress(InvalidStateError):  # it has just come
                future.set_exception(CancelledError())

    def begin(self, context: AttemptContext, task: Task[None]) -> None:
        """Note a call that was asked for in this context."""
        while context.parent is not None:
            context = context.parent
        self.running.setdefault(context, set()).add(task)
        task.add_done_callback(partial(self._done, context))

    def end(self, context: AttemptContext, ended: Callable[[], None], now: float) -> bool:
        """Cancel the calls of an attempt; return whether there are any. ``ended`` is called when all are over."""
        left = {task for task in self.running.pop(context, ()) if not task.done()}
        if not left:
            return False
        self._grace.set(_EndingCalls(left, ended, self._grace), now)
        for task in left:
            task.cancel()
        return True

    def _done(self, context: AttemptContext, task: Task[None]) -> None:
        tasks = self.running.get(context, set())
        tasks.discard(task)
        if not tasks:
            self.running.pop(context, None)


class _EndingCalls:
    """Calls that were cancelled; ``ended`` is called once."""

    __slots__ = ("_ended", "_grace", "_left")

    def __init__(self, left: set[Task[None]], ended: Callable[[], None], grace: Deadlines[Any]) -> None:
        self._left = left
        self._ended: Callable[[], None] | None = ended
        self._grace = grace
        for task in left:
            task.add_done_callback(self._gone)

    def abandon(self) -> None:
        """Wait no longer."""
        if self._ended is not None:
            ended, self._ended = self._ended, None
            ended()

    def _gone(self, task: Task[None]) -> None:
        self._left.discard(task)
        if not self._left:
            self._grace.clear(self)
            self.abandon()


class Closable(Protocol):
    """A resource."""

    async def close(self) -> None:
        """Release it."""


class SharedResources:
    """What the attempts of a run share, such as connections: by key, made at first use, closed when the run ends."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._is_closed = False

    def get(self, key: Hashable, make: Callable[[], C]) -> C:
        """Return the resource of this key; make it at first use."""
        made: C | None = self._made.get(key)
        if made is None:
            if self._is_closed:
                raise UsageError("the run has ended, and what its attempts shared is closed")
            made = self._made[key] = make()
        return made

    async def close(self, within_s: float) -> None:
        """Close everything, the last made first, whatever fails or hangs."""
        self._is_closed = True
        while self._made:
            key, made = self._made.popitem()
            try:
                async with asyncio.timeout(within_s):
                    await made.close()
            except Exception as error:  # noqa: BLE001  what it held is lost in any case
                log.warning("closing %r failed: %s", key, describe_error(error))
