"""Durable steps inside a job: a finished one is not run again, neither by the job's next attempt nor after a restart."""

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
from graphmill.core.usage import Usage, added
from graphmill.engine.classifier import Classifier
from graphmill.engine.delivery import Delivery
from graphmill.engine.failures import ambiguous, decisive, doubted, paused
from graphmill.engine.frame import Frame, current, frame_here
from graphmill.engine.policy import Retry
from graphmill.engine.question import ASK, Question, Waiting
from graphmill.engine.recorder import NO_ATTEMPTS, FailedAttempts, Recall, Recorder, StepOutcome, no_recall
from graphmill.engine.retry import next_wait_s
from graphmill.engine.shared import Shared
from graphmill.engine.spending import Spending
from graphmill.engine.strand import Strand
from graphmill.engine.tracing import Tracing
from graphmill.engine.visits import Visits
from graphmill.engine.workers import Workers, call

_NEW = 2**62  # among the recorded steps of a job: after all of them
_SHOWN = b"shown:"  # before a content that is of nothing, so that nothing is ever found by it
_PASSED_ON = (Kind.THROTTLED, Kind.UNAVAILABLE, Kind.CANCELLED, Kind.PAUSED)


class _Tried(NamedTuple):
    """How an attempt of a step went; a failure that ``is_final`` has used up its tries further inside."""

    body: bytes | None
    failure: Failure | None = None
    is_final: bool = False


class Steps:
    """Runs the steps of one run's jobs."""

    def __init__(  # noqa: PLR0913  what it works with
        self,
        workers: Workers,
        delivery: Delivery,
        recorder: Recorder | None,
        *,
        visits: Visits,
        spending: Spending,
        retry: Retry,
        classifier: Classifier,
        random: Random,
        tracing: Tracing | None,
    ) -> None:
        self.visits = visits
        self.spending = spending
        self._workers = workers
        self._delivery = delivery
        self._recorder = recorder
        self._retry = retry
        self._classifier = classifier
        self._random = random
        self._tracing = tracing
        self.run_id = uuid4().hex if recorder is None else recorder.run_id
        self.origin = self.run_id if recorder is None else f"{recorder.run_id}\n{recorder.created_at!r}"
        self._shows = count(
            uuid4().int >> 52
        )  # another beginning in each process; to ask for as much each time takes too long

    async def run(
        self,
        frame: Frame,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        effect: Effect,
    ) -> Any:
        """Give what a step has come to before, or run it to its end and record that first."""
        name = getattr(function, "__name__", type(function).__name__)
        return await self.perform(
            frame, name, _content(function, args, kwargs), partial(function, *args, **kwargs), effect=effect
        )

    async def perform(
        self, frame: Frame, name: str, content: bytes, function: Callable[[], Any], *, effect: Effect = "repeatable"
    ) -> Any:
        """Do the same for what goes by this name and is decided by this content."""
        path = frame.path_of(name)
        async with frame.lend():
            if frame.is_over:
                raise asyncio.CancelledError
            known = self._recall(frame, path, content, effect)
            if known is None:
                known = await self._attempts(frame, path, effect, function)
                await self._record(frame, path, content, known)
            elif known.usage is not None:  # of an earlier process: it counts here once
                frame.recount(known.usage)
                frame.ticket.answered_by(*known.models)
                self._recalled(frame).outcomes[path, content] = known._replace(usage=None)
        if known.failure is not None:
            raise StepError(path, known.failure)
        return json.loads(known.body or b"null")

    async def ask(self, frame: Frame, value: Any, name: str = ASK) -> Any:
        """Give what a person has answered; else note the question and end the attempt, whatever its code does about that."""
        path = frame.path_of(name)
        if self._recorder is None:
            remedy = "give the batch a run_id, or leave out --no-journal"
            raise Permanent(f"the question {path} can not wait for an answer in a run that is not recorded; {remedy}")
        question = Question.of(path, value, frame.ticket.rules.redact)
        if frame.is_over:
            raise asyncio.CancelledError
        known = self._recalled(frame).outcomes.get((path, question.content))
        if known is not None:
            return json.loads(known.body or b"null")["answer"]
        frame.ticket.questions = [*(frame.ticket.questions or ()), question]
        raise Waiting(path)

    def answered(self, frame: Frame, prefix: str) -> int:
        """Count the answers to questions whose paths begin so."""
        return sum(path.startswith(prefix) for path, _ in self._recalled(frame).outcomes)

    def submit(self, frame: Frame, work: Callable[[], Awaitable[Any]]) -> Future[Any]:
        """Do on the run's loop what is asked for in another thread; it ends with the attempt that it is asked for in."""
        future: Future[Any] = Future()
        self._workers.errands.expect(future)

        def begin() -> None:
            task = self._workers.spawn(_into(future, work))
            self._workers.errands.begin(frame, task)
            task.add_done_callback(lambda _: _cancelled(future))  # also one that never had its first turn

        self._workers.loop.call_soon_threadsafe(begin)
        return future

    @property
    def shared(self) -> Shared:
        """What the attempts of the run share."""
        return self._workers.shared

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the run."""
        return self._workers.loop

    @property
    def is_recorded(self) -> bool:
        """Whether there is a journal."""
        return self._recorder is not None

    def show(self, frame: Frame, path: str, *, began_at: float, body: bytes | None, failure: Failure | None) -> None:
        """Record, for the trace only, something that has ended inside of an attempt."""
        if self._recorder is None or self._delivery.is_forgotten or frame.is_over:
            return
        ticket, now = frame.ticket, self._workers.loop.time()
        if failure is not None and ticket.rules.redact is not None:
            failure = ticket.rules.redact(failure)
        recall, content = self._recalled(frame), _SHOWN + next(self._shows).to_bytes(10, "big")
        outcome = StepOutcome(body, failure, 1, now - began_at, began_s=self._began_s(frame, began_at))
        recall.outcomes[path, content] = outcome._replace(body=None, order=_NEW)
        self._recorder.step(ticket.job, path, content, outcome)

    def shown(self, frame: Frame, prefix: str) -> list[str]:
        """Give what was shown below a path since the item was begun."""
        recall = self._recalled(frame)
        shown = (
            path
            for (path, content), known in recall.outcomes.items()
            if content.startswith(_SHOWN) and known.order >= recall.since
        )
        return [path.removeprefix(prefix) for path in shown if path.startswith(prefix)]

    def _began_s(self, frame: Frame, began_at: float) -> float:
        """Count from the beginning of the job, whose processes before this one are over when all that they recorded is."""
        root = frame.ticket.root if isinstance(frame.ticket, Strand) else frame.ticket
        return self._recalled(frame).before_s + began_at - (began_at if root.started_at is None else root.started_at)

    def _recall(self, frame: Frame, path: str, content: bytes, effect: Effect) -> StepOutcome | None:
        recall = self._recalled(frame)
        known = recall.outcomes.get((path, content))
        if known is None and effect == "unsafe" and path in recall.intended:
            return StepOutcome(
                None, ambiguous("it was under way when its process or its attempt ended, and may have happened")
            )
        return known

    def _recalled(self, frame: Frame) -> Recall:
        ticket = frame.ticket
        if ticket.recall is None:
            ticket.recall = (self._recorder and self._recorder.recall(ticket.job)) or no_recall()
        return ticket.recall

    async def _attempts(self, frame: Frame, path: str, effect: Effect, function: Callable[[], Any]) -> StepOutcome:
        """Try until it goes well or has used up its tries, those of earlier attempts of the job and of earlier processes counted in.

        What the other side's state is to blame for is the job's to wait for.
        """
        began = self._workers.loop.time()
        attempt, counted, used = self._recalled(frame).failed.get(path, NO_ATTEMPTS)
        if used is not None:
            frame.recount(used)
        while True:
            attempt += 1
            await self._intend(frame, path, attempt, effect)
            inner = Frame(self, frame.ticket, path, attempt=frame.attempt, up=frame)
            body, failure, is_final = await self._attempt(frame, inner, attempt, effect, function)
            counted += failure is not None
            used = added(used, inner.usage)
            wait_s = None if failure is None or is_final else self._wait_s(failure, counted)
            if failure is None or wait_s is None or frame.is_over:
                return StepOutcome(
                    body, failure, attempt, self._workers.loop.time() - began, used, self._began_s(frame, began)
                )
            self._recalled(frame).failed[path] = FailedAttempts(attempt, counted)  # what it used is reported already
            self._note_failed(frame, path, attempt, failure, usage=inner.unrecorded)
            await asyncio.sleep(wait_s)

    async def _attempt(
        self, frame: Frame, inner: Frame, attempt: int, effect: Effect, function: Callable[[], Any]
    ) -> _Tried:
        """Try once; what counts as no attempt of this step is raised."""
        frame.down = inner
        try:
            return _Tried(await self._call(inner, function))
        except Waiting:
            self._pass_on(frame, inner, attempt, paused("it waits for an answer"), effect)
            raise
        except asyncio.CancelledError:
            inner.leave()
            raise
        except Exception as raised:
            error = decisive(raised)
            failure = error.failure if isinstance(error, StepError) else self._classifier.failure(error)
            if failure.kind in _PASSED_ON:
                self._pass_on(frame, inner, attempt, failure, effect)
                raise
            failure = doubted(failure, error) if effect == "unsafe" else failure
            return _Tried(None, failure, is_final=isinstance(error, StepError))
        finally:
            frame.down = None

    async def _intend(self, frame: Frame, path: str, attempt: int, effect: Effect) -> None:
        """Make durable that an unsafe step is about to happen."""
        if effect == "unsafe":
            self._recalled(frame).intended.add(path)
            if self._recorder is not None:
                await self._durable(self._recorder.begin(frame.ticket.job, attempt, path))

    def _pass_on(self, frame: Frame, inner: Frame, attempt: int, failure: Failure, effect: Effect) -> None:
        """Leave an attempt that counts as none, with what it used, to the caller; an unsafe step has surely not happened."""
        inner.leave()
        if effect == "unsafe":
            self._recalled(frame).intended.discard(inner.path)
            self._note_failed(frame, inner.path, attempt, failure)

    def _note_failed(
        self, frame: Frame, path: str, attempt: int, failure: Failure, *, usage: Usage | None = None
    ) -> None:
        if self._recorder is not None:
            self._recorder.fail(frame.ticket.job, attempt, failure, path, usage=usage)

    def _wait_s(self, failure: Failure, tries: int) -> float | None:
        return next_wait_s(
            self._retry, failure, tries=tries, throttles=0, throttled_s=0.0, crashes=0, random=self._random
        )

    async def _call(self, frame: Frame, function: Callable[[], Any]) -> bytes:
        token = current.set(frame)
        try:
            if self._tracing is not None:
                with self._tracing.step(frame):
                    return json_of(await call(function))
            return json_of(await call(function))
        finally:
            current.reset(token)

    async def _record(self, frame: Frame, path: str, content: bytes, outcome: StepOutcome) -> None:
        """Make an outcome durable before anybody builds on it; one of an attempt that has ended meanwhile is fenced off."""
        if frame.is_over:
            raise asyncio.CancelledError
        # At once: commits are in order, and it must not be run beside its own. What it used is reported already.
        self._recalled(frame).outcomes[path, content] = outcome._replace(usage=None)
        if self._recorder is not None:
            await self._durable(self._recorder.step(frame.ticket.job, path, content, outcome))

    async def _durable(self, number: int) -> None:
        if self._delivery.is_forgotten:
            raise asyncio.CancelledError
        done = asyncio.Event()
        self._delivery.after(number, done.set)
        await done.wait()


def step(function: Callable[..., Any], /, *args: Any, effect: Effect = "repeatable", **kwargs: Any) -> Any:
    """Call a function as a durable step of the job: once it has ended, it is not run again, also after ``kill -9``.

    In an async function write ``await gm.step(fetch, url)``, in a plain one ``gm.step(fetch, url)``. The function may be
    async or plain; it is retried by the batch's policy. What it gives must be JSON, and comes back as such: a dataclass
    as a dict. If it fails for good, StepError; that too is recorded, and raised again after a restart. A step is known
    by its name, how often it was called before, and its arguments. The steps of one job run one at a time, in its one
    slot. Outside of a batch the function is simply called.
    """
    frame = frame_here()
    if frame is None:
        return function(*args, **kwargs)
    return done_in(frame, partial(frame.steps.run, frame, function, args, kwargs, effect))


def ask(question: Any, /) -> Any:
    """Ask a person: give the answer, or pause the job until ``gm.resume(run_id, answers={item_id: answer})`` brings it.

    In an async function write ``await gm.ask("Publish?")``, in a plain one ``gm.ask("Publish?")``. Question and answer are any JSON.
    A job that is answered runs again from its beginning, its finished steps not. So a question must be the same then: make a step
    of what it is built from. The run must be recorded: give it a ``run_id``.
    """
    frame = frame_here()
    if frame is None:
        raise UsageError("a question belongs to a job: call gm.ask() in a function that a batch runs")
    return done_in(frame, partial(frame.steps.ask, frame, question))


def done_in(frame: Frame, work: Callable[[], Awaitable[Any]]) -> Any:
    """Do work on the run's loop: give what is to be awaited for its value or, in a thread without a loop, the value."""
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        return frame.steps.submit(frame, work).result()
    return work() if here is frame.loop else asyncio.wrap_future(frame.steps.submit(frame, work))


def _cancelled(future: Future[Any]) -> None:
    _told(future, None, asyncio.CancelledError())


async def _into(future: Future[Any], work: Callable[[], Awaitable[Any]]) -> None:
    try:
        value = await work()
    except BaseException as error:
        _told(future, None, error)
        if isinstance(error, asyncio.CancelledError):
            raise
    else:
        _told(future, value, None)


def _told(future: Future[Any], value: Any, error: BaseException | None) -> None:
    """Tell a thread how it ended; one that was told before that nothing will come waits no longer."""
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
