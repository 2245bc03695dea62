"""The life of a job, top to bottom: job > program > step > slot > retry > attempt > classify.

Each ring is a generator that the driver resumes. It calls what is immediate and yields what takes time:

    yield TakeSlot(request)      until a lane grants the slot
    yield RUN_ATTEMPT            until the attempt has ended; returns its value, its error and its context
    yield Sleep(seconds, is_asked)
    yield Committed(number)      until what was recorded is durable
    yield RecordedTurn(order, value)   until everything recorded earlier has been replayed; returns the value
    yield REPLAY_OVER            until nothing recorded is left to replay
    yield RunFork(fork)          until all branches of a fork have ended

No task, callback or cancellation reaches this code: a branch that is cancelled is not resumed, or its attempt has a
reason to end.
"""

from __future__ import annotations

import json
import math
from asyncio import CancelledError
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from graphmill.core.errors import StepError
from graphmill.core.job import Effect
from graphmill.core.result import PENDING, RETRYING, RUNNING, Failure, Kind
from graphmill.core.usage import Usage, add_usage
from graphmill.engine.attempts.workers import Workers
from graphmill.engine.failures import Classifier, NotStarted, ambiguous, as_ambiguous, cancelled, root_cause
from graphmill.engine.jobs.context import AttemptContext, is_question, question_metadata, waiting_for_answers
from graphmill.engine.jobs.program import (
    Decision,
    Failed,
    Finished,
    Fork,
    NeedSpill,
    SeriesStarted,
    Step,
    StepEnd,
    StepRules,
)
from graphmill.engine.jobs.state import AttemptState, Branch, JobEnd, JobState, Life, StepState
from graphmill.engine.monitor import events
from graphmill.engine.monitor.observers import Observers
from graphmill.engine.policy import Policy
from graphmill.engine.results.recorder import NO_ATTEMPTS, FailedAttempts, LastStep, Recorder, StepOutcome, empty_recall
from graphmill.engine.results.results import Commits
from graphmill.engine.scheduling.lanes import WORKERS, SlotRequest, rank
from graphmill.engine.scheduling.retry import Tries
from graphmill.engine.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from graphmill.engine.engine import Engine

_MAX_STEPS_IN_SLOT = 20
_DECIDED_NOW = -1  # the order of a decision that this process made
_LEARNED = Failure(kind=Kind.CANCELLED, type="", message="")  # of a nested call: its lane has learned from it already


class TakeSlot(NamedTuple):
    """Wait for a slot."""

    request: SlotRequest


class RunAttempt:
    """Attempt the branch's present step once."""


class Sleep(NamedTuple):
    """Wait before a retry; ``is_asked`` says that the server wants the wait."""

    seconds: float
    is_asked: bool = False


class Committed(NamedTuple):
    """Wait until what was recorded under this number is durable."""

    number: int


class RecordedTurn(NamedTuple):
    """Wait for the turn of a recorded outcome: the next step may depend on which one came first."""

    order: float
    value: Any


class ReplayOver:
    """Wait until everything recorded has been replayed: new steps come after it."""


class RunFork(NamedTuple):
    """Wait for all branches of a fork."""

    fork: Fork


RUN_ATTEMPT = RunAttempt()
REPLAY_OVER = ReplayOver()


class Dropped(Exception):  # noqa: N818
    """Ends the life of a branch that was cancelled, or whose run stops before its next step could begin."""


class FunctionStep(Step):
    """The one step of a job that is a function. It has no path: its record is the job's own."""

    __slots__ = ()


class Outcome(NamedTuple):
    """How a step ended for good."""

    output: Any
    body: Any  # the output as it is recorded
    failure: Failure | None
    attempt: AttemptState


class FailedAttempt(NamedTuple):
    """How an attempt failed: whether it may be retried, and which usage of it no row of the journal holds yet."""

    failure: Failure
    error: BaseException | None
    is_final: bool
    unrecorded: Usage | None


class Lives:
    """Writes the lives of one run's jobs."""

    def __init__(  # noqa: PLR0913  what it works with
        self,
        engine: Engine,
        scheduler: Scheduler,
        workers: Workers,
        commits: Commits,
        recorder: Recorder,
        *,
        policy: Policy,
        random: Random,
        observers: Observers,
        classifier: Classifier,
    ) -> None:
        self._engine = engine
        self._scheduler = scheduler
        self._workers = workers
        self._commits = commits
        self._recorder = recorder
        self._random = random
        self._observers = observers
        self._classifier = classifier
        self.now = workers.loop.time()  # of the present callback, set by the driver
        self._function_steps: dict[Effect, FunctionStep] = {
            effect: FunctionStep("", StepRules(retry=policy.retry, timeout_s=policy.timeout_s, effect=effect))
            for effect in get_args(Effect)
        }

    # -- job: a function, or a program of steps ------------------------------------------------------------------------

    def run_function(self, branch: Branch) -> Life:
        """Run a job that is a function: one step, for which it has its slot already."""
        job, past = branch.job, branch.job.job.past
        step = StepState(branch, self._function_steps[job.job.effect], past.attempts, past.usage, self.now)
        branch.step, step.slot, job.entry = step, job.entry, None
        outcome = yield from self._run_attempts(branch, step)
        job.attempts = step.attempts
        if step.usage is not None:
            job.record.usage = step.usage
        self._release_slot(branch, outcome.failure)
        questions = outcome.attempt.questions
        if outcome.failure is None:
            return JobEnd(outcome.output, outcome.body)
        if questions and is_question(outcome.failure):
            return JobEnd(failure=waiting_for_answers(questions), metadata=question_metadata(questions))
        return JobEnd(failure=outcome.failure)

    def run_job(self, branch: Branch) -> Life:
        """Run a job that is a program."""
        record = branch.job.record
        try:
            finished = yield from self.run_program(branch)
            if not isinstance(finished, Finished):
                return JobEnd(failure=cancelled("the program returned nothing"))
            return self._accept(finished)
        except Failed as end:
            if is_question(end.failure) and record.questions:
                questions = record.questions
                return JobEnd(failure=waiting_for_answers(questions), metadata=question_metadata(questions))
            return JobEnd(failure=end.failure)

    def _accept(self, finished: Finished) -> JobEnd:
        """Check what a program returned, and render it for the journal."""
        accept = self._workers.accept
        try:
            if accept is None:
                return JobEnd(finished.output, None, None, finished.metadata)
            if not self._recorder.is_recording:
                return JobEnd(accept(finished.output), None, None, finished.metadata)
            output, body = accept(finished.output)
        except Exception as error:  # noqa: BLE001  the output may be nothing that can be recorded
            return JobEnd(failure=self._classifier.failure(error))
        return JobEnd(output, body, None, finished.metadata)

    # -- program: asks for steps, decisions and forks, until it returns or fails ---------------------------------------

    def run_program(self, branch: Branch) -> Life:
        """Run a program: answer what it asks for until it returns or fails."""
        job, program, record, value = branch.job, branch.program, branch.job.record, None
        assert program is not None  # noqa: S101
        while True:
            try:
                asked = program.send(value)
            except StopIteration as end:
                self._release_slot(branch, None)
                return end.value
            except Exception as error:  # noqa: BLE001  a failure, or a mistake such as an unknown name in a template
                self._release_slot(branch, None)
                raise error if isinstance(error, Failed) else Failed(self._classifier.failure(error)) from None
            if record.last_step is not None:
                self._write_last_step(job)
            if isinstance(asked, Step):
                value = yield from self._run_step(branch, asked)
            elif isinstance(asked, Decision):
                value, order = self._decide(job, asked)
                if order is not None:
                    self._release_slot(branch, None)
                    value = yield RecordedTurn(order, value)
            elif isinstance(asked, NeedSpill):
                value = self._recorder.spill()
            elif isinstance(asked, SeriesStarted):
                record.series, value = asked.series, None
            else:
                self._release_slot(branch, None)
                value = yield RunFork(asked)

    def _decide(self, job: JobState, decision: Decision) -> tuple[Any, float | None]:
        """Return what was decided first and, if an earlier process did so, its place in the order of the record."""
        record = job.record
        if record.recall is None:
            record.recall = empty_recall()
        content = b""
        if decision.content is not None and self._recorder.is_recording:
            content = decision.content()
        known = record.recall.outcomes.get((decision.path, content))
        if known is not None:
            is_immediate = decision.body is None or known.order == _DECIDED_NOW
            return json.loads(known.body or b"null"), None if is_immediate else known.order
        if decision.body is not None:
            outcome = StepOutcome(decision.body, None, attempts=0, order=_DECIDED_NOW)
            record.recall.outcomes[decision.path, content] = outcome
            if not self._commits.is_forgotten:
                is_temporary = decision.is_temporary
                self._recorder.remember(job.job, decision.path, content, decision.body, is_temporary=is_temporary)
        return decision.value, None

    # -- step: known from an earlier process, or attempted until it ends -----------------------------------------------

    def _run_step(self, branch: Branch, step: Step) -> Life:
        job = branch.job
        record = job.record
        replay = record.replay
        if replay is not None:
            known = self._recorded_outcome(job, step)
            if known is not None:
                self._release_slot(branch, None)
                return (yield RecordedTurn(known.order, self._recall_step(job, known)))
            if not replay.is_over:
                self._release_slot(branch, None)
                yield REPLAY_OVER
        if self._scheduler.stop_failure is not None:
            self._release_slot(branch, None)
            raise _dropped(job, self._scheduler.stop_failure)
        past = self._past_attempts(branch, step)
        state = StepState(branch, step, past.last, past.usage, self.now)
        request = self._find_slot(branch, state)
        if request is not None:
            yield TakeSlot(request)
        outcome = yield from self._run_attempts(branch, state)
        return self._end_step(branch, state, outcome)

    def _find_slot(self, branch: Branch, state: StepState) -> SlotRequest | None:
        """Take the slot of the step before, or one that is free; else return a request for the next in the lane."""
        key = state.rules.lane
        if key is None:
            key = branch.job.job.key if state.rules.isolation is None else WORKERS
        if self._keep_slot(branch, state, key):
            return None
        request = self._slot_request(state, key)
        self._scheduler.lanes.join(request.lane)
        job = branch.job
        if branch is job.main and job.entry is not None:  # the job's own turn came right now
            job.entry = None
            if self._scheduler.start_first_step(request, job, self.now):
                state.slot = request
                return None
        return request

    def _keep_slot(self, branch: Branch, state: StepState, key: str) -> bool:
        """Keep the slot of the step before, if that is in the same lane and nothing comes first; return whether."""
        last, branch.step = branch.step, state
        slot = None if last is None else last.slot
        if last is None or slot is None:
            return False
        may_keep = state.rules.limits is None and branch.steps_in_slot < _MAX_STEPS_IN_SLOT
        if may_keep and self._scheduler.keep_slot(slot, key, self.now):
            state.slot, last.slot, last.attempt = slot, None, None
            slot.usage = state.usage
            branch.steps_in_slot += 1
            return True
        branch.step = last
        self._release_slot(branch, None)
        branch.step, branch.steps_in_slot = state, 0
        return False

    def _end_step(self, branch: Branch, state: StepState, outcome: Outcome) -> StepEnd:
        job, failure = branch.job, outcome.failure
        record = job.record
        if failure is not None or branch.is_dropped:
            self._release_slot(branch, failure)
        if state.usage is not None:
            record.usage = add_usage(record.usage, state.usage)
        if failure is not None and failure is self._scheduler.stop_failure:
            raise _dropped(job, failure)
        job.attempts = max(job.attempts, state.attempts)
        if branch.is_dropped:
            raise Dropped
        duration_s = self.now - state.began_at
        began_s = record.past_s + state.began_at - job.began_at(state.began_at)
        questions, is_recording = outcome.attempt.questions, self._recorder.is_recording
        if questions:
            record.questions = [*(record.questions or ()), *questions]
        elif is_recording and state.rules.is_recorded and not is_question(failure):
            ended = StepOutcome(outcome.body, failure, state.attempts, duration_s, state.usage, began_s)
            record.last_step = LastStep(state.step.path, state.step.content(), ended)
            if branch.parent is not None or state.rules.effect == "unsafe":
                self._write_last_step(job, state.rules.effect)
        return StepEnd(outcome.output, failure, state.attempts, duration_s, state.usage, began_s)

    # -- retry ---------------------------------------------------------------------------------------------------------

    def _run_attempts(self, branch: Branch, state: StepState) -> Life:
        """Attempt a step until it succeeds or may not be retried. Its slot is still held: the next step may keep it."""
        while True:
            attempt = AttemptState(state, state.attempts + 1)
            ended = yield from self._run_attempt(branch, state, attempt)
            if isinstance(ended, Outcome):
                return ended
            failure, error, is_final, unrecorded = ended
            if state.rules.effect == "unsafe" and not state.rules.is_retried_if_ambiguous:
                failure = as_ambiguous(failure, error)
            wait_s, last = None, failure
            if not is_final:
                wait_s = self._next_wait_s(state, attempt, failure)
            stop_failure = self._scheduler.stop_failure
            if wait_s is not None and stop_failure is not None:
                wait_s, last = None, stop_failure
            if wait_s is None:
                if unrecorded is not None and self._ends_without_outcome(branch, last):
                    self._record_failure(state, failure, unrecorded)
                return Outcome(None, None, last, attempt)
            assert state.slot is not None  # noqa: S101
            key, request_rank = state.slot.lane.key, state.slot.rank
            if (
                failure.kind is Kind.UNAVAILABLE
            ):  # to the back: another job probes next, and no job alone pauses the run
                request_rank = rank(admitted_at=self.now, priority=state.job.priority)
            self._vacate(branch, state, failure)
            self._record_failure(state, failure, unrecorded)
            yield from self._sleep(branch, state, failure, wait_s)
            yield TakeSlot(self._slot_request(state, key, request_rank))

    def _sleep(self, branch: Branch, state: StepState, failure: Failure, wait_s: float) -> Life:
        job = branch.job
        self._scheduler.retrying += 1
        if branch.program is None:
            job.status = RETRYING
            job.attempts, job.record.usage = state.attempts, state.usage
        elif not job.slots:
            self._recorder.leave(job.job)  # waiting is not running
        if self._observers.has_observers:
            facts = {"job_id": job.job.id, "attempt": state.attempts, "path": state.step.path}
            self._observers.notify(events.RetryScheduled, failure=failure, wait_s=wait_s, **facts)
        yield Sleep(wait_s, failure.kind is Kind.THROTTLED or failure.retry_after_s is not None)
        self._scheduler.retrying -= 1
        if branch.program is None:
            job.status = PENDING

    def _next_wait_s(self, state: StepState, attempt: AttemptState, failure: Failure) -> float | None:
        now, tries, slot = self.now, state.tries, state.slot
        assert slot is not None  # noqa: S101
        if tries is None:
            past = self._past_attempts(state.branch, state.step)
            crashes = state.job.past.crashes if state.branch.program is None else 0
            refusals = past.last - past.counted
            tries = state.tries = Tries(state.rules.retry, self._random, refusals=refusals, crashes=crashes)
        wait_s = tries.next_wait_s(failure, state.attempts, now, is_probe=slot.is_probe)
        lane = attempt.failed_lane or slot.lane
        if wait_s is None and tries.is_outage(failure, now, lane.succeeded_at):
            throttled_s = f"throttled for {tries.throttled_s:.0f} s"
            slot.lane.health.give_up(f"{failure.message} ({throttled_s}, and lately no call got through)")
            wait_s = 0.0
        if wait_s is not None and failure.kind is Kind.THROTTLED and self._scheduler.stop_failure is None:
            tries.throttled_s += wait_s
        return wait_s

    # -- attempt: the driver sets its timeout and runs it; here its end is classified ----------------------------------

    def _run_attempt(self, branch: Branch, state: StepState, attempt: AttemptState) -> Life:
        state.attempts, state.attempt = attempt.number, attempt
        branch.job.status = RUNNING
        path = state.step.path
        if self._observers.has_observers:
            facts = {"job_id": state.job.id, "attempt": attempt.number, "path": path}
            self._observers.notify(events.AttemptStarted, **facts)
        number = self._recorder.begin(state.job, attempt.number, path if state.rules.effect == "unsafe" else "")
        if number:
            yield Committed(number)
        context: AttemptContext | None = None
        if number and attempt.cancel_reason is not None:  # cancelled before it could begin
            self._recorder.fail(state.job, attempt.number, attempt.cancel_reason.failure, path)
            value, error = None, NotStarted()
        else:
            value, error, context = yield RUN_ATTEMPT
        if context is not None and context.usage is not None:
            state.usage = add_usage(state.usage, context.usage)
        if isinstance(error, CancelledError) and attempt.cancel_reason is None and self._workers.is_owner_cancelled:
            self._engine.cancel()  # gives this attempt a reason too: cancelled is not failed
        if error is not None or attempt.cancel_reason is not None or attempt.questions:
            unrecorded = None if context is None else context.unrecorded_usage()
            return self._classify(state, attempt, error, unrecorded)
        if self._recorder.is_recording:
            value, body = value
            return Outcome(value, body, None, attempt)
        return Outcome(value, None, None, attempt)

    def _classify(
        self, state: StepState, attempt: AttemptState, error: BaseException | None, unrecorded: Usage | None
    ) -> Outcome | FailedAttempt:
        """Return how an attempt ended: a reason from outside counts first, then a question, then its error."""
        if attempt.cancel_reason is not None:
            attempt.questions = None
            failure = _name_awaited(attempt.cancel_reason.failure, error)
            if failure is not attempt.cancel_reason.failure and state.rules.redact is not None:
                failure = state.rules.redact(failure)
            return FailedAttempt(failure, error, attempt.cancel_reason.is_final, unrecorded)
        if attempt.questions:
            failure = waiting_for_answers(attempt.questions)
            if state.rules.effect == "unsafe" or unrecorded is not None:
                self._record_failure(state, failure, unrecorded)
            return Outcome(None, None, failure, attempt)
        assert error is not None  # noqa: S101
        error = root_cause(error)
        failure = self._classifier.failure(error)
        if state.rules.redact is not None:
            failure = state.rules.redact(failure)
        return FailedAttempt(failure, error, isinstance(error, StepError), unrecorded)

    # -- slots ---------------------------------------------------------------------------------------------------------

    def _slot_request(self, state: StepState, key: str, at_rank: float | None = None) -> SlotRequest:
        branch, rules = state.branch, state.rules
        is_call = rules.lane is not None
        lane = self._scheduler.lanes.get(key, rules.limits, is_call=is_call)
        if at_rank is None:
            at_rank = branch.job.rank
        request = SlotRequest(lane, at_rank, branch.position, state, is_call=is_call)
        if is_call:
            request.estimate = state.step.estimate_tokens
        request.usage = state.usage
        return request

    def _vacate(self, branch: Branch, state: StepState, failure: Failure | None) -> None:
        slot, attempt = state.slot, state.attempt
        assert slot is not None  # noqa: S101
        state.slot = state.attempt = None  # an attempt and its step refer to each other
        state.last_lane = slot.lane
        slot.usage = state.usage
        is_refusal = failure is not None and failure.kind in (Kind.THROTTLED, Kind.UNAVAILABLE)
        if is_refusal and attempt is not None and attempt.failed_lane is not None:
            failure = _LEARNED
        self._scheduler.vacate(slot, branch.job, failure, self.now)

    def _release_slot(self, branch: Branch, failure: Failure | None) -> None:
        """Return the slot of a step that has ended, if it still holds one."""
        state = branch.step
        if state is None or state.slot is None:
            return
        lane = state.slot.lane
        if branch.program is not None:
            if branch.job.slots == 1:
                self._recorder.leave(branch.job.job)
            self._scheduler.lanes.leave(lane)
        self._vacate(branch, state, failure)

    # -- the record ----------------------------------------------------------------------------------------------------

    def begin_recall(self, job: JobState) -> bool:
        """Look up what earlier processes recorded of a job's steps; return whether there is anything to replay."""
        job.record.recall = recall = self._recorder.recall(job.job)
        if recall is None or not (recall.outcomes or recall.intended):
            return False
        job.record.past_s = recall.before_s
        return True

    def _recorded_outcome(self, job: JobState, step: Step) -> StepOutcome | None:
        """Return what an earlier process recorded of a step; an unsafe one that it began is ambiguous."""
        recall = job.record.recall
        if recall is None or not step.rules.is_recorded:
            return None
        outcome = recall.outcomes.get((step.path, step.content()))
        if outcome is None and step.path in recall.intended and not step.rules.is_retried_if_ambiguous:
            past = recall.failed.get(step.path, NO_ATTEMPTS)
            failure = ambiguous("it was running when its process ended, and may have happened")
            return StepOutcome(None, failure, past.last + 1, usage=past.usage, order=math.inf)
        return outcome

    def _recall_step(self, job: JobState, outcome: StepOutcome) -> StepEnd:
        record = job.record
        job.attempts = max(job.attempts, outcome.attempts)
        record.usage = add_usage(record.usage, outcome.usage)
        record.add_models(*outcome.models)
        output = None if outcome.body is None else json.loads(outcome.body)
        return StepEnd(output, outcome.failure, outcome.attempts, outcome.duration_s, outcome.usage, outcome.began_s)

    def _write_last_step(self, job: JobState, effect: Effect = "repeatable") -> None:
        """Write a step that its job did not end with; the last one goes with the job's own row."""
        last = job.record.last_step
        if last is not None:
            job.record.last_step = None
            if not self._commits.is_forgotten:
                self._commits.count(self._recorder.step(job.job, *last), effect)

    def _record_failure(self, state: StepState, failure: Failure, usage: Usage | None) -> None:
        number = self._recorder.fail(state.job, state.attempts, failure, state.step.path, usage=usage)
        self._commits.count(number, "repeatable")  # it too would be repeated after a crash

    def _ends_without_outcome(self, branch: Branch, failure: Failure | None) -> bool:
        """Whether an attempt ends without a recorded outcome: then its usage needs a row of its own."""
        if branch.program is not None and branch.is_dropped:
            return True
        stop_failure = self._scheduler.stop_failure
        if stop_failure is None or failure is None:
            return False
        return failure is stop_failure or failure.kind in (Kind.PAUSED, Kind.CANCELLED)

    def _past_attempts(self, branch: Branch, step: Step) -> FailedAttempts:
        """Return the attempts of a step in earlier processes."""
        if branch.program is None:
            past = branch.job.job.past
            return FailedAttempts(past.attempts, past.counted, past.usage)
        recall = branch.job.record.recall
        return NO_ATTEMPTS if recall is None else recall.failed.get(step.path, NO_ATTEMPTS)


def _dropped(job: JobState, failure: Failure) -> Dropped:
    job.end_failure = job.end_failure or failure
    return Dropped()


def _name_awaited(failure: Failure, error: BaseException | None) -> Failure:
    """Name what an attempt that timed out was waiting for, if its error says so."""
    awaited = getattr(error, "awaited", None)
    if awaited is None or failure.kind is not Kind.TIMEOUT:
        return failure
    return replace(failure, message=f"{awaited}: {failure.message}")
