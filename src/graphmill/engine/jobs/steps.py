"""Durable steps inside a function: a finished one does not run again, in a retry or after a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from itertools import count
from random import Random
from typing import Any, NamedTuple
from uuid import uuid4

from graphmill.core.errors import Permanent, StepError, UsageError
from graphmill.core.fingerprint import known_fingerprint
from graphmill.core.job import Effect
from graphmill.core.json import canonical, digest, json_of
from graphmill.core.result import Failure, Kind
from graphmill.core.usage import add_usage
from graphmill.engine.attempts.workers import Workers, call
from graphmill.engine.failures import Classifier, ambiguous, as_ambiguous, paused, root_cause
from graphmill.engine.jobs.context import ASK, AttemptContext, Question, Waiting, current_context, find_context
from graphmill.engine.monitor.tracing import Tracing
from graphmill.engine.policy import Retry
from graphmill.engine.results.recorder import (
    NO_ATTEMPTS,
    FailedAttempts,
    Recall,
    Recorder,
    StepOutcome,
    empty_recall,
)
from graphmill.engine.results.results import Commits
from graphmill.engine.scheduling.budget import BudgetGate
from graphmill.engine.scheduling.nested_calls import NestedCalls
from graphmill.engine.scheduling.retry import Tries

_LAST = 2**62  # the order of a step that this process recorded: after all others
_SHOWN = b"shown:"  # begins the content of what is only shown: no step is found by it
_LEFT_TO_JOB = (Kind.THROTTLED, Kind.UNAVAILABLE, Kind.CANCELLED, Kind.PAUSED)


class _StepAttempt(NamedTuple):
    """How an attempt of a step went; a final failure has used up its attempts further inside."""

    body: bytes | None
    failure: Failure | None = None
    is_final: bool = False


class Steps:
    """Runs the steps that functions call, for all jobs of a run."""

    def __init__(  # noqa: PLR0913  what it works with
        self,
        workers: Workers,
        commits: Commits,
        recorder: Recorder,
        nested_calls: NestedCalls,
        *,
        retry: Retry,
        classifier: Classifier,
        random: Random,
        tracing: Tracing | None,
        budget_gate: BudgetGate | None = None,
    ) -> None:
        self.budget_gate = budget_gate
        self.nested_calls = nested_calls
        self.workers = workers
        self._commits = commits
        self.recorder = recorder
        self._retry = retry
        self._classifier = classifier
        self._random = random
        self._tracing = tracing
        self.origin = recorder.run_id
        if recorder.is_recording:
            self.origin = f"{recorder.run_id}\n{recorder.created_at!r}"
        self._shown_count = count(uuid4().int >> 52)  # begins elsewhere in each process

    async def run(
        self,
        context: AttemptContext,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        effect: Effect,
    ) -> Any:
        """Return the recorded outcome of a call, or make it and record its outcome first."""
        name = getattr(function, "__name__", type(function).__name__)
        content = _content(function, args, kwargs)
        return await self.perform(context, name, content, partial(function, *args, **kwargs), effect=effect)

    async def perform(
        self,
        context: AttemptContext,
        name: str,
        content: bytes,
        function: Callable[[], Any],
        *,
        effect: Effect = "repeatable",
    ) -> Any:
        """Return the recorded outcome of a step of this name and content, or run it and record its outcome first."""
        path = context.path_of(name)
        async with context.lock_step():
            if context.is_over:
                raise asyncio.CancelledError
            outcome = self._recorded_outcome(context, path, content, effect)
            if outcome is None:
                outcome = await self._run_attempts(context, path, effect, function)
                await self._record(context, path, content, outcome)
            elif outcome.usage is not None:  # of an earlier process: it counts here once
                context.add_usage(outcome.usage)
                context.attempt.step.record.add_models(*outcome.models)
                self._recall(context).outcomes[path, content] = outcome._replace(usage=None)
        if outcome.failure is not None:
            raise StepError(path, outcome.failure, outcome.attempts)
        return json.loads(outcome.body or b"null")

    # -- attempts ------------------------------------------------------------------------------------------------------

    async def _run_attempts(
        self, context: AttemptContext, path: str, effect: Effect, function: Callable[[], Any]
    ) -> StepOutcome:
        """Attempt a step until it goes well or its attempts, those of earlier processes included, are used up.

        Throttling and outages are left to the job: it waits for them in its lane.
        """
        began_at = self.workers.loop.time()
        tries = Tries(self._retry, self._random, refusals=0, crashes=0)
        number, counted, usage = self._recall(context).failed.get(path, NO_ATTEMPTS)
        if usage is not None:
            context.add_usage(usage)
        while True:
            number += 1
            await self._record_intent(context, path, number, effect)
            inner = AttemptContext(self, context.attempt, path, number=number, parent=context)
            body, failure, is_final = await self._attempt(context, inner, number, effect, function)
            counted += failure is not None
            usage = add_usage(usage, inner.usage)
            wait_s = None
            if failure is not None and not is_final:
                wait_s = tries.next_wait_s(failure, counted, self.workers.loop.time(), is_probe=False)
            if wait_s is None or failure is None or context.is_over:
                duration_s = self.workers.loop.time() - began_at
                return StepOutcome(body, failure, number, duration_s, usage, self._began_s(context, began_at))
            self._recall(context).failed[path] = FailedAttempts(number, counted)  # its usage is reported already
            self.recorder.fail(context.attempt.step.job, number, failure, path, usage=inner.unrecorded)
            await asyncio.sleep(wait_s)

    async def _attempt(
        self, context: AttemptContext, inner: AttemptContext, number: int, effect: Effect, function: Callable[[], Any]
    ) -> _StepAttempt:
        """Attempt a step once; what is left to the job is raised, and does not count as an attempt."""
        context.child = inner
        try:
            return _StepAttempt(await self._call(inner, function))
        except Waiting:
            self._leave_to_job(context, inner, number, paused("it waits for an answer"), effect)
            raise
        except asyncio.CancelledError:
            inner.leave()
            raise
        except Exception as raised:
            error = root_cause(raised)
            failure = error.failure if isinstance(error, StepError) else self._classifier.failure(error)
            if failure.kind in _LEFT_TO_JOB:
                self._leave_to_job(context, inner, number, failure, effect)
                raise
            if effect == "unsafe":
                failure = as_ambiguous(failure, error)
            return _StepAttempt(None, failure, is_final=isinstance(error, StepError))
        finally:
            context.child = None

    async def _call(self, context: AttemptContext, function: Callable[[], Any]) -> bytes:
        token = current_context.set(context)
        try:
            if self._tracing is not None:
                with self._tracing.step(context):
                    return json_of(await call(function))
            return json_of(await call(function))
        finally:
            current_context.reset(token)

    def _leave_to_job(
        self, context: AttemptContext, inner: AttemptContext, number: int, failure: Failure, effect: Effect
    ) -> None:
        """Leave an attempt that does not count, and its usage, to the job; an unsafe step has surely not happened."""
        inner.leave()
        if effect == "unsafe":
            self._recall(context).intended.discard(inner.path)
            self.recorder.fail(context.attempt.step.job, number, failure, inner.path)

    # -- the record ----------------------------------------------------------------------------------------------------

    def _recall(self, context: AttemptContext) -> Recall:
        job = context.attempt.step.branch.job
        if job.record.recall is None:
            job.record.recall = self.recorder.recall(job.job) or empty_recall()
        return job.record.recall

    def _recorded_outcome(
        self, context: AttemptContext, path: str, content: bytes, effect: Effect
    ) -> StepOutcome | None:
        recall = self._recall(context)
        known = recall.outcomes.get((path, content))
        if known is None and effect == "unsafe" and path in recall.intended:
            return StepOutcome(
                None, ambiguous("it was running when its process or its attempt ended, and may have happened")
            )
        return known

    async def _record_intent(self, context: AttemptContext, path: str, number: int, effect: Effect) -> None:
        """Make durable that an unsafe step is about to happen."""
        if effect == "unsafe":
            self._recall(context).intended.add(path)
            await self._wait_durable(self.recorder.begin(context.attempt.step.job, number, path))

    async def _record(self, context: AttemptContext, path: str, content: bytes, outcome: StepOutcome) -> None:
        """Make an outcome durable before anything builds on it; ignored if its attempt has ended meanwhile."""
        if context.is_over:
            raise asyncio.CancelledError
        # Now rather than when it is durable: commits are in order, and no second call may run beside it.
        self._recall(context).outcomes[path, content] = outcome._replace(usage=None)
        await self._wait_durable(self.recorder.step(context.attempt.step.job, path, content, outcome))

    async def _wait_durable(self, number: int) -> None:
        if not number:
            return
        if self._commits.is_forgotten:
            raise asyncio.CancelledError
        done = asyncio.Event()
        self._commits.after(number, done.set)
        await done.wait()

    def _began_s(self, context: AttemptContext, began_at: float) -> float:
        """Count from the job's beginning; what earlier processes recorded comes before this one."""
        started_at = context.attempt.step.branch.job.started_at
        return self._recall(context).before_s + began_at - (began_at if started_at is None else started_at)

    # -- shown only ----------------------------------------------------------------------------------------------------

    def show(
        self, context: AttemptContext, path: str, *, began_at: float, body: bytes | None, failure: Failure | None
    ) -> None:
        """Record, for the trace only, something that has ended inside an attempt."""
        if not self.recorder.is_recording or self._commits.is_forgotten or context.is_over:
            return
        step, now = context.attempt.step, self.workers.loop.time()
        if failure is not None and step.rules.redact is not None:
            failure = step.rules.redact(failure)
        recall, content = self._recall(context), _SHOWN + next(self._shown_count).to_bytes(10, "big")
        outcome = StepOutcome(body, failure, 1, now - began_at, began_s=self._began_s(context, began_at))
        recall.outcomes[path, content] = outcome._replace(body=None, order=_LAST)
        self.recorder.step(step.job, path, content, outcome)

    def shown(self, context: AttemptContext, prefix: str) -> list[str]:
        """Return what was shown below a path in the present generation of the item."""
        recall = self._recall(context)
        return [
            path.removeprefix(prefix)
            for (path, content), outcome in recall.outcomes.items()
            if content.startswith(_SHOWN) and outcome.order >= recall.since and path.startswith(prefix)
        ]

    # -- questions -----------------------------------------------------------------------------------------------------

    async def ask(self, context: AttemptContext, value: Any, name: str = ASK) -> Any:
        """Return a person's answer; without one, note the question and end the attempt.

        It ends even if its code catches everything.
        """
        path = context.path_of(name)
        if not self.recorder.is_recording:
            raise Permanent(
                f"the question {path} can't wait for an answer in a run that is not recorded;"
                " give the batch a run_id, or leave out --no-journal"
            )
        question = Question.make(path, value, context.attempt.step.rules.redact)
        if context.is_over:
            raise asyncio.CancelledError
        known = self._recall(context).outcomes.get((path, question.content))
        if known is not None:
            return json.loads(known.body or b"null")["answer"]
        attempt = context.attempt
        attempt.questions = [*(attempt.questions or ()), question]
        raise Waiting(path)

    def answered(self, context: AttemptContext, prefix: str) -> int:
        """Count the answers to questions whose paths begin like this."""
        return sum(path.startswith(prefix) for path, _ in self._recall(context).outcomes)

    # -- what attempts share -------------------------------------------------------------------------------------------

    def submit(self, context: AttemptContext, work: Callable[[], Awaitable[Any]]) -> Future[Any]:
        """Do on the run's loop what another thread asks for; it ends with the attempt of that thread."""
        future: Future[Any] = Future()
        self.workers.thread_calls.expect(future)

        def begin() -> None:
            task = self.workers.spawn(_set_result_of(future, work))
            self.workers.thread_calls.begin(context, task)
            task.add_done_callback(lambda _: _cancel_future(future))  # also if it was cancelled before its first turn

        self.workers.loop.call_soon_threadsafe(begin)
        return future


def step(function: Callable[..., Any], /, *args: Any, effect: Effect = "repeatable", **kwargs: Any) -> Any:
    """Call a function as a durable step of the job: once it has ended, it is not run again, also after ``kill -9``.

    In an async function write ``await gm.step(fetch, url)``, in a plain one ``gm.step(fetch, url)``. The function may
    be async or plain; it is retried by the batch's policy. It must return JSON, and its value comes back as such: a
    dataclass as a dict. If it fails for good, StepError is raised, recorded, and raised again after a restart. A step
    is identified by its name, how often it was called before, and its arguments. The steps of one job run one at a
    time, in its slot. Outside a batch the function is simply called.
    """
    context = find_context()
    if context is None:
        return function(*args, **kwargs)
    return run_on_loop(context, partial(context.steps.run, context, function, args, kwargs, effect))


def ask(question: Any, /) -> Any:
    """Ask a person: return the answer, or let the job wait for ``gm.resume(run_id, answers={item_id: answer})``.

    In an async function write ``await gm.ask("Publish?")``, in a plain one ``gm.ask("Publish?")``. Question and answer
    are any JSON. An answered job runs again from its beginning, but its finished steps do not. So the question must be
    the same then: make a step of what it is built from. The run must be recorded: give it a ``run_id``.
    """
    context = find_context()
    if context is None:
        raise UsageError("a question belongs to a job: call gm.ask() in a function that a batch runs")
    return run_on_loop(context, partial(context.steps.ask, context, question))


def run_on_loop(context: AttemptContext, work: Callable[[], Awaitable[Any]]) -> Any:
    """Do work on the run's loop; return an awaitable of its value or, in a thread without a loop, the value."""
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        return context.steps.submit(context, work).result()
    return work() if here is context.loop else asyncio.wrap_future(context.steps.submit(context, work))


def _cancel_future(future: Future[Any]) -> None:
    _set_future(future, None, asyncio.CancelledError())


async def _set_result_of(future: Future[Any], work: Callable[[], Awaitable[Any]]) -> None:
    try:
        value = await work()
    except BaseException as error:
        _set_future(future, None, error)
        if isinstance(error, asyncio.CancelledError):
            raise
    else:
        _set_future(future, value, None)


def _set_future(future: Future[Any], value: Any, error: BaseException | None) -> None:
    """Set the future that a thread waits for, unless it is done already."""
    with suppress(InvalidStateError):
        future.set_result(value) if error is None else future.set_exception(error)


def _content(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """Hash what a step is given; an argument that is no data, such as a client, counts by its type."""
    found = [
        known_fingerprint(function),
        [_plain(value) for value in args],
        {name: _plain(value) for name, value in kwargs.items()},
    ]
    return digest(canonical(found))


def _plain(value: Any) -> Any:
    try:
        return canonical(value).decode()
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__module__}.{type(value).__qualname__}>"
