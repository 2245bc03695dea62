"""Attempts: how each begins, how its end is taken, and what becomes of its job or step then."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from graphmill.core.errors import StepError
from graphmill.core.result import RUNNING, Failure, Kind, Result
from graphmill.core.usage import Usage, added
from graphmill.engine import events
from graphmill.engine.acting import acting
from graphmill.engine.audience import Audience
from graphmill.engine.classifier import Classifier
from graphmill.engine.deadlines import Deadlines
from graphmill.engine.delivery import Delivery
from graphmill.engine.failures import NotBegun, cancelled, decisive, doubted, timed_out
from graphmill.engine.frame import Frame
from graphmill.engine.health import HealthState
from graphmill.engine.lane import Lane
from graphmill.engine.program import Finished, Programmed
from graphmill.engine.question import Question, is_question, metadata_of, waiting
from graphmill.engine.recorder import Recorder
from graphmill.engine.scheduler import Scheduler
from graphmill.engine.spending import Spending
from graphmill.engine.steps import Steps
from graphmill.engine.strand import Strand
from graphmill.engine.strands import Strands
from graphmill.engine.terms import Terms
from graphmill.engine.ticket import Ticket, Verdict
from graphmill.engine.tracing import Tracing
from graphmill.engine.visit import Visit
from graphmill.engine.visits import Visits
from graphmill.engine.workers import Workers


class Attempts:
    """The attempts of one run.

    ``freed`` is called when a slot may be free, ``idle`` when an attempt has ended and no other runs, ``finished(ticket, result)`` when
    a job is over, ``lane_changed(lane, limit, state)`` with what its limit and health were before, ``cancel`` when somebody else ends
    the run's tasks, ``crash`` with a fault of ours.
    """

    def __init__(  # noqa: PLR0913  what it works with
        self,
        scheduler: Scheduler,
        workers: Workers,
        delivery: Delivery,
        recorder: Recorder | None,
        *,
        terms: Terms,
        audience: Audience,
        spending: Spending,
        freed: Callable[[], None],
        idle: Callable[[], None],
        finished: Callable[[Ticket, Result], None],
        lane_changed: Callable[[Lane, int, HealthState], None],
        cancel: Callable[[], object],
        crash: Callable[[BaseException], None],
        tracing: Tracing | None,
    ) -> None:
        self._scheduler = scheduler
        self._workers = workers
        self._loop = workers.loop
        self._delivery = delivery
        self._recorder = recorder
        self._accept_step = None if recorder is None else recorder.accept
        self._policy = terms.policy
        self._audience = audience
        self._freed = freed
        self._idle = idle
        self._finished = finished
        self._lane_changed = lane_changed
        self._cancel = cancel
        self.crash = crash
        self._tracing = tracing
        self._classifier = Classifier(self._policy.classify)
        visits = Visits(scheduler, self._loop, self._classifier, freed=freed, lane_changed=lane_changed)
        self._steps = Steps(
            workers,
            delivery,
            recorder,
            visits=visits,
            spending=spending,
            retry=self._policy.retry,
            classifier=self._classifier,
            random=terms.random,
            tracing=tracing,
        )
        self._strands = Strands(
            scheduler,
            workers,
            delivery,
            recorder,
            policy=self._policy,
            classifier=self._classifier,
            start=self._start,
            queued=freed,
            ended=self._program_ended,
            crash=crash,
        )
        self._deadlines: dict[float, Deadlines[Ticket]] = {}
        self._job_deadlines = Deadlines(self._loop, self._policy.job_timeout_s, self._job_expired)

    def start(self, ticket: Ticket, now: float) -> None:
        """Begin what has got a slot: an attempt, or a job that is made of steps; or let a call go on that has waited for its lane."""
        if isinstance(ticket, Visit):
            if ticket.entered is not None and not ticket.entered.done():
                ticket.entered.set_result(None)
            return
        if ticket.is_probe:
            self._lane_changed(ticket.lane, ticket.lane.limit, HealthState.OPEN)
        if isinstance(ticket, Strand):
            self._start(ticket, now)
        elif isinstance(ticket.job.graph, Programmed):
            self._job_deadlines.set(ticket, now)
            self._strands.open(ticket)
        else:
            if ticket.attempts == ticket.job.past.attempts + 1:
                self._job_deadlines.set(ticket, now)
            self._start(ticket, now)

    def end(self, ticket: Ticket, failure: Failure) -> None:
        """End a job from outside; a running one ends when its attempt does, or is abandoned."""
        if ticket.status is RUNNING:
            self.condemn(ticket, Verdict(failure, is_final=True))
        else:
            self._finish(ticket, self._scheduler.end(ticket, failure, self._loop.time()))

    def condemn(self, ticket: Ticket, verdict: Verdict) -> None:
        """End what a ticket is for as soon as that lets itself be ended; a final verdict stands."""
        if ticket.verdict is None or not ticket.verdict.is_final:
            ticket.verdict = verdict
        if ticket.strands is not None:
            self._strands.condemn(ticket)
        elif ticket.attempt is not None:
            ticket.attempt.interrupt()

    def leave(self, failure: Failure) -> None:
        """Begin nothing more: what runs may end, and all else ends with this failure now."""
        begun = [ticket for ticket in self._scheduler.under_way() if ticket.strands is not None]
        for ticket, result in self._scheduler.leave(failure, self._loop.time()):
            self._finish(ticket, result)
        for ticket in begun:
            self._strands.leave(ticket, failure)

    def close(self) -> None:
        """Leave no timer behind, and nothing that runs undisturbed: after a fault, or when closing was cancelled, there may be some."""
        for deadlines in (*self._deadlines.values(), self._job_deadlines):
            deadlines.close()
        for ticket in self._scheduler.under_way():
            for each in (ticket, *(ticket.strands or ())):
                if each.attempt is not None:
                    each.attempt.interrupt()

    def _start(self, ticket: Ticket, now: float) -> None:
        if self._audience.has_observers:
            self._audience.tell(events.AttemptStarted, job_id=ticket.job.id, attempt=ticket.attempts, path=ticket.path)
        if self._recorder is not None:
            path = ticket.path if ticket.rules.effect == "unsafe" else ""
            if number := self._recorder.begin(ticket.job, ticket.attempts, path):
                self._delivery.after(number, partial(self._begin, ticket))
                return
        self._begin(ticket, now)

    def _begin(self, ticket: Ticket, now: float | None = None) -> None:
        if ticket.verdict is not None and self._recorder is not None:  # ended from outside before it could begin
            self._recorder.fail(ticket.job, ticket.attempts, ticket.verdict.failure, ticket.path)
            self._loop.call_soon(self._ended, ticket, None, NotBegun())
            return
        if (timeout_s := ticket.rules.timeout_s) is not None:
            ticket.deadlines = self._deadlines.get(timeout_s) or self._new_deadlines(timeout_s)
            ticket.deadlines.set(ticket, self._loop.time() if now is None else now)
        frame = ticket.frame = Frame(self._steps, ticket, ticket.path)
        if self._tracing is not None:
            self._tracing.attempt(frame)
        is_suspect = ticket.crashes > 0
        if isinstance(ticket, Strand):
            ticket.attempt = self._workers.begin_step(
                ticket.step, self._ended, frame=frame, accept=self._accept_step, is_suspect=is_suspect, last=ticket.last
            )
        else:
            ticket.attempt = self._workers.begin(
                ticket.job.graph, ticket.job.input, self._ended, frame=frame, is_suspect=is_suspect
            )

    def _new_deadlines(self, timeout_s: float) -> Deadlines[Ticket]:
        deadlines = self._deadlines[timeout_s] = Deadlines(self._loop, timeout_s, self._expired)
        return deadlines

    @acting
    def _expired(self, ticket: Ticket) -> None:
        self.condemn(ticket, Verdict(timed_out(f"no answer within {ticket.rules.timeout_s:g} s"), is_final=False))

    @acting
    def _job_expired(self, ticket: Ticket) -> None:
        self.end(ticket, timed_out(f"not finished within the job's {self._policy.job_timeout_s:g} s"))

    @acting
    def _ended(self, ticket: Ticket, value: Any, error: BaseException | None) -> None:
        now = self._loop.time()
        if ticket.deadlines is not None:
            ticket.deadlines.clear(ticket)
        if (errands := self._workers.errands).under_way and errands.end(
            ticket.frame, partial(self._ended, ticket, value, error), now
        ):
            ticket.attempt = None  # it is over, but for what they have used
            return
        self._freed()  # first: what takes the slot is to be under way before the result is written, and goes with it if it is quick
        self._take(ticket, value, error, now)
        if not self._scheduler.running:
            self._idle()

    def _take(self, ticket: Ticket, value: Any, error: BaseException | None, now: float) -> None:
        frame = self._frame_of(ticket, error)
        if isinstance(error, CancelledError) and ticket.verdict is None and self._workers.is_left:
            self._cancel()  # which gives this ticket a verdict too: cancelled is not failed
        verdict, ticket.verdict, ticket.last, ticket.attempt = ticket.verdict, None, ticket.attempt, None
        asked, ticket.questions = ticket.questions, None
        lane = ticket.lane
        limit, state = lane.limit, lane.health.state
        if verdict is not None:
            self._failed(ticket, frame, _named(ticket, verdict.failure, error), error, now, is_final=verdict.is_final)
        elif asked:
            self._asked(ticket, frame, asked, now)
        elif error is not None:
            self._raised(ticket, frame, decisive(error), now)
        else:
            body = None
            if self._recorder is not None:
                value, body = value
            if isinstance(ticket, Strand):
                self._strands.step_ended(ticket, value, body, None, now)
            else:
                ticket.body = body
                self._finish(ticket, self._scheduler.succeed(ticket, value, now))
        if lane.limit != limit or lane.health.state is not state:
            self._lane_changed(lane, limit, state)
        ticket.last = None

    def _frame_of(self, ticket: Ticket, error: BaseException | None) -> Frame | None:
        """Take the frame of an attempt that has ended, and what it used; None if it was never begun."""
        frame, ticket.frame = ticket.frame, None
        if frame is not None:
            if frame.usage is not None:
                ticket.usage = added(ticket.usage, frame.usage)
            if self._tracing is not None:
                self._tracing.ended(frame, error)
        return frame

    def _asked(self, ticket: Ticket, frame: Frame | None, questions: list[Question], now: float) -> None:
        """End an attempt that waits for answers: it counts as none, and what it must not do twice it has not done."""
        failure, usage = waiting(questions), None if frame is None else frame.left_unrecorded()
        if ticket.rules.effect == "unsafe" or usage is not None:
            self._note_failed(ticket, failure, usage)
        if isinstance(ticket, Strand):
            ticket.root.questions = [*(ticket.root.questions or ()), *questions]
            self._strands.step_ended(ticket, None, None, failure, now)
        else:
            self._wait_for_answers(ticket, questions, now)

    def _wait_for_answers(self, ticket: Ticket, questions: list[Question], now: float) -> None:
        result = self._scheduler.end(ticket, waiting(questions), now)
        self._finish(ticket, msgspec.structs.replace(result, metadata={**result.metadata, **metadata_of(questions)}))

    def _raised(self, ticket: Ticket, frame: Frame | None, error: BaseException, now: float) -> None:
        failure = self._classifier.failure(error)
        if ticket.rules.redact is not None:
            failure = ticket.rules.redact(failure)
        self._failed(ticket, frame, failure, error, now, is_final=isinstance(error, StepError))

    def _failed(
        self,
        ticket: Ticket,
        frame: Frame | None,
        failure: Failure,
        error: BaseException | None,
        now: float,
        *,
        is_final: bool,
    ) -> None:
        if ticket.rules.effect == "unsafe" and not ticket.rules.is_retried_if_ambiguous:
            failure = doubted(failure, error)
        outcome = failure if is_final else self._scheduler.fail(ticket, failure, now)
        usage = None if frame is None else frame.left_unrecorded()
        if not isinstance(outcome, Failure):
            self._note_failed(ticket, failure, usage)
            self._wait(ticket, failure, outcome)
            return
        if usage is not None and self._is_left(ticket, outcome):
            self._note_failed(ticket, failure, usage)
        self._failed_for_good(ticket, outcome, now)

    def _wait(self, ticket: Ticket, failure: Failure, wait_s: float) -> None:
        """Let the next attempt begin later."""
        if self._recorder is not None and isinstance(ticket, Strand) and not ticket.root.busy:
            self._recorder.leave(ticket.job)  # to wait is not to be under way
        ticket.timer = self._loop.call_later(wait_s, self._retry_due, ticket)
        self._audience.tell(
            events.RetryScheduled, job_id=ticket.job.id, attempt=ticket.attempts, failure=failure, wait_s=wait_s
        )

    def _is_left(self, ticket: Ticket, failure: Failure) -> bool:
        """Tell whether an attempt ends without an outcome that is kept: what it used must be noted by itself."""
        if isinstance(ticket, Strand) and ticket.is_dropped:
            return True
        leaving = self._scheduler.leaving
        return leaving is not None and (failure is leaving or failure.kind in (Kind.PAUSED, Kind.CANCELLED))

    def _note_failed(self, ticket: Ticket, failure: Failure, usage: Usage | None) -> None:
        """Record a failed attempt, and count it if it left a row: it too would be repeated after a crash."""
        if self._recorder is None:
            return
        if number := self._recorder.fail(ticket.job, ticket.attempts, failure, ticket.path, usage=usage):
            self._delivery.count(number, "repeatable")

    def _failed_for_good(self, ticket: Ticket, failure: Failure, now: float) -> None:
        if not isinstance(ticket, Strand):
            self._finish(ticket, self._scheduler.end(ticket, failure, now))
        elif failure is self._scheduler.leaving:
            self._strands.step_left(ticket, failure)
        else:
            self._strands.step_ended(ticket, None, None, failure, now)

    @acting
    def _retry_due(self, ticket: Ticket) -> None:
        ticket.timer = None
        self._scheduler.retry(ticket)
        self._freed()

    def _program_ended(self, ticket: Ticket, finished: Finished | None, failure: Failure | None) -> None:
        """End a job that was made of steps."""
        now = self._loop.time()
        if is_question(failure) and ticket.questions:
            self._wait_for_answers(ticket, ticket.questions, now)
            return
        if finished is None or failure is not None:
            self._finish(ticket, self._scheduler.end(ticket, failure or cancelled("it gave nothing"), now))
            return
        try:
            output, ticket.body = self._accepted(finished.output)
        except Exception as error:  # noqa: BLE001  what a job gives may not be what can be recorded
            self._finish(ticket, self._scheduler.end(ticket, self._classifier.failure(error), now))
            return
        result = self._scheduler.complete(ticket, output, now)
        if finished.metadata:
            result = msgspec.structs.replace(result, metadata={**result.metadata, **finished.metadata})
        self._finish(ticket, result)

    def _accepted(self, output: Any) -> tuple[Any, Any]:
        accept = self._workers.accept
        if accept is None:
            return output, None
        return accept(output) if self._recorder is not None else (accept(output), None)

    def _finish(self, ticket: Ticket, result: Result) -> None:
        if ticket.timer is not None:
            ticket.timer.cancel()
            ticket.timer = None
        self._job_deadlines.clear(ticket)
        if self._tracing is not None:
            self._tracing.finish(result)
        self._finished(ticket, result)


def _named(ticket: Ticket, failure: Failure, error: BaseException | None) -> Failure:
    """Say of a time-out what was waited for, where the error that ended the attempt tells."""
    awaited = getattr(error, "awaited", None)
    if awaited is None or failure.kind is not Kind.TIMEOUT:
        return failure
    named = replace(failure, message=f"{awaited}: {failure.message}")
    return named if ticket.rules.redact is None else ticket.rules.redact(named)
