"""Drives the programs of jobs that are made of steps: asks each what is next, and tells it how that ended."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from graphmill.core.job import Effect
from graphmill.core.result import RUNNING, Failure
from graphmill.core.usage import added
from graphmill.engine.acting import acting
from graphmill.engine.classifier import Classifier
from graphmill.engine.delivery import Delivery
from graphmill.engine.failures import ambiguous, cancelled
from graphmill.engine.notebook import Notebook
from graphmill.engine.policy import Policy
from graphmill.engine.program import Aside, Begun, Failed, Finished, Fork, Note, Program, Programmed, Step, StepEnd
from graphmill.engine.question import is_question
from graphmill.engine.recorder import NO_ATTEMPTS, LastStep, Recall, Recorder, StepOutcome
from graphmill.engine.replay import Replay
from graphmill.engine.scheduler import Scheduler
from graphmill.engine.strand import Strand
from graphmill.engine.ticket import Ticket, Verdict
from graphmill.engine.workers import Workers

_MOST_IN_A_ROW = 20
_MOST_SPREAD_AT_ONCE = 100  # what one turn of the loop begins is bounded, so that no turn is long
_MOST_REPLAYED_AT_ONCE = 100


class Strands:
    """The strands of one run.

    ``start`` is called with a strand whose step has its slot, ``queued`` when one waits for it, ``ended(ticket, finished, failure)``
    when a job is over, ``crash`` with a fault of ours.
    """

    def __init__(  # noqa: PLR0913  what it works with
        self,
        scheduler: Scheduler,
        workers: Workers,
        delivery: Delivery,
        recorder: Recorder | None,
        *,
        policy: Policy,
        classifier: Classifier,
        start: Callable[[Strand, float], None],
        queued: Callable[[], None],
        ended: Callable[[Ticket, Finished | None, Failure | None], None],
        crash: Callable[[BaseException], None],
    ) -> None:
        self._scheduler = scheduler
        self._loop = workers.loop
        self._delivery = delivery
        self._recorder = recorder
        self._notebook = Notebook(delivery, recorder)
        self._policy = policy
        self._classifier = classifier
        self._start = start
        self._queued = queued
        self._ended = ended
        self.crash = crash
        self._opening: Strand | None = None

    def open(self, ticket: Ticket) -> None:
        """Begin a job."""
        graph = ticket.job.graph
        if not isinstance(graph, Programmed):
            raise TypeError(f"{graph!r} is not made of steps")
        recall = ticket.recall = None if self._recorder is None else self._recorder.recall(ticket.job)
        main = self._opening = Strand(ticket, graph.program(ticket.job.input, self._policy), None)
        ticket.strands = {main: None}
        if recall is not None and (recall.outcomes or recall.intended):
            ticket.replay = Replay(recall.since)
            ticket.past_s = recall.before_s
            self._replay_soon(ticket, ticket.replay)
        self._advance(main, None)
        self._opening = None

    def step_ended(self, strand: Strand, output: Any, body: bytes | None, failure: Failure | None, now: float) -> None:
        """Take the outcome of a strand's step, and go on from there; one that comes too late changes nothing."""
        step, root = strand.step, strand.root
        strand.is_holding = True
        if failure is not None or strand.is_dropped:
            self._give_back(strand, failure, now)
        root.attempts = max(root.attempts, strand.attempts)
        if strand.usage is not None:
            root.usage = added(root.usage, strand.usage)
        if strand.is_dropped:
            self._gone(strand)
            return
        duration_s = now - strand.began_at
        began_s = root.past_s + strand.began_at - (strand.began_at if root.started_at is None else root.started_at)
        if step.rules.is_recorded and self._recorder is not None and not is_question(failure):
            outcome = StepOutcome(body, failure, strand.attempts, duration_s, strand.usage, began_s)
            self._record(strand, LastStep(step.path, step.content(), outcome))
        self._advance(strand, StepEnd(output, failure, strand.attempts, duration_s, strand.usage, began_s), now)

    def condemn(self, ticket: Ticket) -> None:
        """End a job that has a verdict: what it does is interrupted, the rest let go; it is over when the last attempt is."""
        for strand in list(ticket.strands or ()):
            self._drop(strand)
        self._end_if_idle(ticket)

    def leave(self, ticket: Ticket, failure: Failure) -> None:
        """Begin nothing more of a job; what it does may end, and is kept."""
        for strand in list(ticket.strands or ()):
            if strand.has_step and strand.status is not RUNNING:
                self._left(strand, failure)

    def _advance(self, strand: Strand, value: Any, now: float | None = None) -> None:
        """Tell a program what it asked for, until it asks for something that is not there yet."""
        while True:
            try:
                asked = strand.program.send(value)
            except Exception as end:  # noqa: BLE001  its return, its failure, or a fault such as a name that is missing in a template
                self._give_back(strand, None, now)
                return self._program_ended(strand, end)
            if strand.root.last_step is not None:
                self._write_last(strand.root)
            if isinstance(asked, Step):
                return self._step_asked(strand, asked, self._loop.time() if now is None else now)
            if isinstance(asked, Aside):
                value = None if self._recorder is None else self._recorder.pages()
            elif isinstance(asked, Begun):
                strand.root.series, value = asked.series, None
            elif isinstance(asked, Note):
                value, order = self._notebook.look_up(strand.root, asked)
                if order is not None:
                    self._tell_later(strand, order, value)
                    return self._give_back(strand, None, now)
            else:
                self._give_back(strand, None, now)
                if not self._spread(strand, asked):
                    return None
                value = None

    def _step_asked(self, strand: Strand, step: Step, now: float) -> None:
        if strand.recall is not None and self._is_known(strand, strand.recall, step):
            self._give_back(strand, None, now)
        else:
            self._enqueue(strand, step, now)

    def _program_ended(self, strand: Strand, end: Exception) -> None:
        if isinstance(end, StopIteration):
            self._strand_ended(strand, end.value, None)
        elif isinstance(end, Failed):
            self._strand_ended(strand, None, end.failure)
        else:
            self._strand_ended(strand, None, self._classifier.failure(end))

    def _is_known(self, strand: Strand, recall: Recall, step: Step) -> bool:
        """Tell whether an earlier process has recorded a step; if so, its outcome is told when it is its turn."""
        replay = strand.root.replay
        if replay is None or not step.rules.is_recorded:
            return False
        outcome = recall.outcomes.get((step.path, step.content()))
        if outcome is not None:
            self._tell_later(strand, outcome.order, self._recalled(strand, outcome))
        elif step.path in recall.intended and not step.rules.is_retried_if_ambiguous:
            past = recall.failed.get(step.path, NO_ATTEMPTS)
            failure = ambiguous("it was under way when its process ended, and may have happened")
            outcome = StepOutcome(None, failure, past.last + 1, usage=past.usage)
            self._tell_later(strand, math.inf, self._recalled(strand, outcome))
        else:
            return False
        return True

    def _tell_later(self, strand: Strand, order: float, known: Any) -> None:
        """Let a strand wait for what is known until all that was recorded before it is told."""
        replay = strand.root.replay = strand.root.replay or Replay()
        replay.put(order, strand, known)
        self._replay_soon(strand.root, replay)

    def _recalled(self, strand: Strand, outcome: StepOutcome) -> StepEnd:
        strand.root.attempts = max(strand.root.attempts, outcome.attempts)
        strand.root.usage = added(strand.root.usage, outcome.usage)
        strand.answered_by(*outcome.models)
        output = None if outcome.body is None else json.loads(outcome.body)
        return StepEnd(output, outcome.failure, outcome.attempts, outcome.duration_s, outcome.usage, outcome.began_s)

    def _replay_soon(self, ticket: Ticket, replay: Replay) -> None:
        if not replay.is_due:
            replay.is_due = True
            self._loop.call_soon(self._replay, ticket, replay)

    @acting
    def _replay(self, ticket: Ticket, replay: Replay) -> None:
        """Tell strands what is known, and, when that is over, let the new steps of the job begin."""
        for _ in range(_MOST_REPLAYED_AT_ONCE):
            if (known := replay.take()) is None:
                break
            strand, end = known
            if not strand.is_dropped:
                self._advance(strand, end)
        replay.is_due = False
        if not replay.is_over:
            if not replay.spreads:
                self._replay_soon(ticket, replay)
            return
        for strand, fork, left_s in replay.timed():
            if left_s > 0:
                strand.timer = self._loop.call_later(left_s, self._expired, strand, fork)
            else:
                self._expired(strand, fork)
        for strand, step in replay.release():
            self._enqueue(strand, step, self._loop.time())

    def _enqueue(self, strand: Strand, step: Step, now: float) -> None:
        replay = strand.root.replay
        if replay is not None and not replay.is_over:
            self._give_back(strand, None, now)
            replay.hold(strand, step)
            return
        if (failure := self._scheduler.leaving) is not None:
            self._give_back(strand, None, now)
            self._left(strand, failure)
            return
        lane = strand.job.key if step.rules.lane is None else step.rules.lane
        is_free = step.rules.limits is None  # else its lane must know them first
        if (
            is_free
            and strand.is_holding
            and strand.in_a_row < _MOST_IN_A_ROW
            and self._scheduler.carry_on(strand, lane, now)
        ):
            strand.is_holding = False
            strand.in_a_row += 1
            strand.set_step(step, now)
            strand.status = RUNNING
            strand.attempts += 1
            self._start(strand, now)
            return
        self._give_back(strand, None, now)
        strand.in_a_row = 0
        strand.set_step(step, now)
        if strand is self._opening and self._scheduler.take_slot(strand, lane, now):
            self._start(strand, now)
            return
        self._scheduler.enqueue(strand, lane)
        self._queued()

    def _give_back(self, strand: Strand, failure: Failure | None, now: float | None) -> None:
        """Give back the slot of a step that has ended, if it is still held."""
        if strand.is_holding:
            strand.is_holding = False
            if self._recorder is not None and strand.root.busy == 1:
                self._recorder.leave(strand.job)
            self._scheduler.end_step(strand, failure, self._loop.time() if now is None else now)

    def step_left(self, strand: Strand, failure: Failure) -> None:
        """Take an attempt that failed while its run is left: there will be no other."""
        strand.is_holding = True
        self._give_back(strand, failure, None)
        strand.root.usage = added(strand.root.usage, strand.usage)
        self._left(strand, failure)

    def _left(self, strand: Strand, failure: Failure) -> None:
        """Give up a strand because its run is left; so its job can not be finished, and ends with its last attempt."""
        root = strand.root
        root.verdict = root.verdict or Verdict(failure, is_final=True)
        self._drop(strand)
        self._end_if_idle(root)

    def _record(self, strand: Strand, ended: LastStep) -> None:
        """Record a step now, or, if its job may end with it, when that is known: then both are one row."""
        strand.root.last_step = ended
        if strand.up is not None or strand.step.rules.effect == "unsafe":
            self._write_last(strand.root, strand.step.rules.effect)

    def _write_last(self, root: Ticket, effect: Effect = "repeatable") -> None:
        last, root.last_step = root.last_step, None
        if last is not None and self._recorder is not None and not self._delivery.is_forgotten:
            self._delivery.count(self._recorder.step(root.job, *last), effect)

    def _spread(self, strand: Strand, fork: Fork) -> bool:
        """Begin what a fork holds; tell whether all of it is over already."""
        strand.fork = fork
        replay = strand.root.replay
        if fork.timeout_s is not None and replay is not None and not replay.is_over:
            replay.time(strand, fork)
        elif fork.timeout_s is not None:
            strand.timer = self._loop.call_later(fork.timeout_s, self._expired, strand, fork)
        return self._go_on(strand, fork)

    def _go_on(self, strand: Strand, fork: Fork) -> bool:
        """Begin what a fork gives now; tell whether nothing of it is left."""
        begun, strand.is_spreading = 0, True
        while (
            not (fork.is_stopped or strand.is_dropped)
            and begun < _MOST_SPREAD_AT_ONCE
            and (program := fork.more()) is not None
        ):
            begun += 1
            self._begin(strand, program)
        if fork.is_stopped:
            for child in list(strand.children):
                self._drop(child)
        strand.is_spreading = False  # not before: an attempt in a worker process ends as soon as it is interrupted
        if strand.is_dropped:  # with its job, by what the first of them led to
            return False
        if not fork.is_stopped and begun == _MOST_SPREAD_AT_ONCE:
            self._spread_soon(strand, fork)
            return False
        if strand.children:
            return False
        strand.fork = None
        _cancel_timer(strand)
        return True

    def _spread_soon(self, strand: Strand, fork: Fork) -> None:
        if (replay := strand.root.replay) is not None:
            replay.spreads += 1
        self._loop.call_soon(self._spread_on, strand, fork)

    @acting
    def _spread_on(self, strand: Strand, fork: Fork) -> None:
        replay = strand.root.replay
        self._resume(strand, fork)
        if replay is not None:
            replay.spreads -= 1
            self._replay_soon(strand.root, replay)

    def _begin(self, strand: Strand, program: Program) -> None:
        child = Strand(strand.root, program, strand)
        strand.children[child] = None
        if strand.root.strands is not None:
            strand.root.strands[child] = None
        self._advance(child, None)

    @acting
    def _resume(self, strand: Strand, fork: Fork) -> None:
        """Look after a fork again; when it is over, so is what the strand waited for."""
        if strand.fork is not fork or strand.is_spreading or strand.is_dropped or strand.root.verdict is not None:
            return
        if self._go_on(strand, fork):
            self._advance(strand, None)

    @acting
    def _expired(self, strand: Strand, fork: Fork) -> None:
        strand.timer = None
        fork.expire()
        self._resume(strand, fork)

    def _strand_ended(self, strand: Strand, value: Any, failure: Failure | None) -> None:
        self._remove(strand)
        up = strand.up
        if up is None:
            self._finish(strand.root, value, failure)
        elif up.fork is not None:
            up.fork.ended(strand.program, value, failure)
            self._resume(up, up.fork)
            self._end_if_idle(strand.root)

    def _drop(self, strand: Strand) -> None:
        """Want nothing more of a strand and those below it; one whose attempt runs is gone when that has ended."""
        strand.is_dropped = True
        strand.program.close()
        for child in list(strand.children):
            self._drop(child)
        _cancel_timer(strand)
        if strand.has_step and strand.status is RUNNING:
            strand.verdict = strand.verdict or Verdict(cancelled("it is no longer wanted"), is_final=True)
            if strand.attempt is not None:
                strand.attempt.interrupt()
            return
        if strand.has_step:
            self._scheduler.end_step(strand, cancelled("it is no longer wanted"), self._loop.time())
        self._remove(strand)

    def _gone(self, strand: Strand) -> None:
        """Forget a strand that nobody wants, now that its last attempt has ended; whoever waited for that goes on."""
        self._remove(strand)
        self._end_if_idle(strand.root)
        if strand.up is not None and strand.up.fork is not None:
            self._resume(strand.up, strand.up.fork)

    def _remove(self, strand: Strand) -> None:
        if strand.up is not None:
            strand.up.children.pop(strand, None)
        if strand.root.strands is not None:
            strand.root.strands.pop(strand, None)

    def _end_if_idle(self, ticket: Ticket) -> None:
        if ticket.verdict is not None and not ticket.busy and not ticket.status.is_final:
            self._finish(ticket, None, ticket.verdict.failure)

    def _finish(self, ticket: Ticket, value: Any, failure: Failure | None) -> None:
        for strand in list(ticket.strands or ()):
            self._drop(strand)
        self._ended(ticket, value, failure)


def _cancel_timer(strand: Strand) -> None:
    if strand.timer is not None:
        strand.timer.cancel()
        strand.timer = None
