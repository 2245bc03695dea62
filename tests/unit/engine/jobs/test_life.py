"""The life of a job, resumed by hand: no loop, no task and no clock but a number."""

from asyncio import CancelledError
from random import Random
from types import SimpleNamespace

import pytest

import graphmill as gm
from graphmill.core.errors import StepError
from graphmill.core.job import Past
from graphmill.engine.failures import Classifier, cancelled, timed_out
from graphmill.engine.jobs.branches import Replay
from graphmill.engine.jobs.life import (
    REPLAY_OVER,
    RUN_ATTEMPT,
    Committed,
    Dropped,
    Lives,
    RecordedTurn,
    RunFork,
    Sleep,
    TakeSlot,
)
from graphmill.engine.jobs.program import Decision, Failed, Finished
from graphmill.engine.jobs.state import Branch, CancelReason, JobEnd
from graphmill.engine.results.recorder import FailedAttempts, NullRecorder, Recall, StepOutcome
from graphmill.engine.scheduling.scheduler import Scheduler
from support.programs import Graph, Several, step

RETRY = gm.Retry(attempts=3, wait_s=2.0, backoff="fixed", jitter=False, throttle_budget_s=60.0)


class Recorder(NullRecorder):
    """Knows what an earlier process recorded, and keeps what this one does."""

    is_recording = True

    def __init__(self, recall=None):
        super().__init__([], total=None, accept=None)
        self.known = recall
        self.rows = []

    def begin(self, job, attempt, path=""):
        return self._add("intent", path) if job.effect == "unsafe" or path else 0

    def fail(self, job, attempt, failure, path="", *, usage=None):
        return self._add("failed", path, failure.kind)

    def step(self, job, path, content, outcome):
        return self._add("step", path, outcome.body)

    def remember(self, job, path, content, body, *, is_temporary):
        return self._add("decision", path, body)

    def recall(self, job):
        return self.known

    def _add(self, *row):
        self.rows.append(row)
        return len(self.rows)


class HandDriven:
    """A job that has just got its first slot, and its life."""

    def __init__(self, graph=print, *, recorder=None, effect="repeatable", past=None, **policy):
        policy = gm.Policy(retry=RETRY, **policy)
        self.scheduler, self.is_run_cancelled = Scheduler(policy), False
        self.recorder = recorder or NullRecorder([], total=None, accept=None)
        self.workers = SimpleNamespace(loop=SimpleNamespace(time=float), accept=None, is_owner_cancelled=False)
        if self.recorder.is_recording:
            self.workers.accept = lambda output: (output, repr(output).encode())
        commits = SimpleNamespace(is_forgotten=False, count=lambda number, effect: None)
        self.lives = Lives(
            self, self.scheduler, self.workers, commits, self.recorder,
            policy=policy, random=Random(1), observers=SimpleNamespace(has_observers=False), classifier=Classifier(None),
        )  # fmt: skip
        job = gm.Job(id="j", graph=graph, effect=effect, past=past or Past())
        self.job = self.scheduler.admit(job, position=0, now=0.0)
        entry = self.scheduler.start_next(0.0)
        self.job.started_at = 0.0
        if isinstance(graph, Graph):
            self.branch = self.job.main = Branch(self.job, graph.program(None, policy), None)
            self.branch.life = self.lives.run_job(self.branch)
            if self.lives.begin_recall(self.job):
                self.job.record.replay = Replay()
        else:
            self.branch = self.job.main = Branch(self.job, None, None)
            self.branch.life = self.lives.run_function(self.branch)
            self.scheduler.occupy(entry, self.job, 0.0)

    def cancel(self):
        self.is_run_cancelled = True
        self.branch.step.attempt.cancel(CancelReason(cancelled("the run was cancelled"), is_final=True))

    def resume(self, value=None, *, after_s=0.0):
        """Resume the life; return what it waits for next, or how the job ended."""
        self.lives.now += after_s
        try:
            return self.branch.life.send(value)
        except StopIteration as end:
            return end.value

    def end_attempt(self, value=None, error=None):
        """Resume it with the end of the attempt that runs."""
        return self.resume((value, error, None))

    def grant(self, wait):
        """Resume it with the slot that it waits for."""
        assert type(wait) is TakeSlot
        self.scheduler.enqueue(wait.request)
        assert self.scheduler.start_next(self.lives.now) is wait.request
        self.branch.step.slot = wait.request
        self.scheduler.occupy(wait.request, self.job, self.lives.now)
        return self.resume()

    def retry(self, error):
        """Let the attempt that runs fail, and the next begin; return how long it waited."""
        sleep = self.end_attempt(error=error)
        assert type(sleep) is Sleep
        assert self.scheduler.running == 0  # whoever sleeps holds no slot
        assert self.grant(self.resume(after_s=sleep.seconds)) is RUN_ATTEMPT
        return sleep.seconds


def program_of(*parts):
    """A program that asks for these one after the other and returns what it hears."""

    def program(_):
        heard = []
        for part in parts:
            end = yield part
            heard.append(getattr(end, "output", end))
        return Finished(heard, {})

    return Graph(program)


def act(_):
    raise AssertionError("nobody runs it here")


class TestFunctions:
    def test_a_function_has_its_slot_runs_once_and_ends_with_its_output(self):
        life = HandDriven()
        assert life.resume() is RUN_ATTEMPT
        assert life.end_attempt("out") == JobEnd("out")
        assert (life.job.attempts, life.scheduler.running) == (1, 0)

    def test_a_transient_failure_sleeps_takes_another_slot_and_is_tried_again(self):
        life = HandDriven()
        life.resume()
        assert life.end_attempt(error=gm.Transient("no")) == Sleep(2.0)
        wait = life.resume(after_s=2.0)
        assert type(wait) is TakeSlot
        assert life.grant(wait) is RUN_ATTEMPT
        assert life.end_attempt("out") == JobEnd("out")
        assert life.job.attempts == 2

    def test_when_its_attempts_are_used_up_it_fails_with_the_last_failure(self):
        life = HandDriven()
        life.resume()
        assert [life.retry(gm.Transient("first")), life.retry(gm.Transient("second"))] == [2.0, 2.0]
        end = life.end_attempt(error=gm.Transient("third"))
        assert (str(end.failure.kind), end.failure.message, life.job.attempts) == ("transient", "third", 3)

    def test_attempts_of_earlier_processes_count(self):
        life = HandDriven(past=Past(attempts=2, counted=2))
        life.resume()
        end = life.end_attempt(error=gm.Transient("no"))
        assert (end.failure.message, life.job.attempts) == ("no", 3)

    @pytest.mark.parametrize("error", [gm.Permanent("never"), StepError("inner", timed_out("no answer"))])
    def test_what_is_final_is_not_tried_again(self, error):
        life = HandDriven()
        life.resume()
        assert life.end_attempt(error=error).failure is not None
        assert life.job.attempts == 1

    def test_throttling_uses_up_no_attempt_but_its_budget_of_waits(self):
        life = HandDriven()
        life.resume()
        waits = [life.retry(gm.Throttled("slow down", retry_after_s=20.0)) for _ in range(2)]
        life.job.lane.succeeded_at = life.lives.now  # others get through, so this is no outage
        waits.append(life.retry(gm.Throttled("slow down", retry_after_s=20.0)))
        assert sum(waits) == 60.0
        end = life.end_attempt(error=gm.Throttled("slow down", retry_after_s=20.0))
        assert (str(end.failure.kind), life.job.attempts) == ("throttled", 4)

    def test_what_found_its_server_unavailable_goes_behind_what_was_admitted_meanwhile(self):
        life = HandDriven()
        life.resume()
        life.lives.now = 5.0
        life.end_attempt(error=gm.Unavailable("down"))
        assert (life.job.rank, life.resume(after_s=1.0).request.rank) == (0.0, 5.0)


class TestCancellation:
    def test_a_final_reason_ends_the_job_and_fences_off_what_its_code_still_returns(self):
        life = HandDriven()
        life.resume()
        reason = cancelled("the job was cancelled")
        life.branch.step.attempt.cancel(CancelReason(reason, is_final=True))
        assert life.end_attempt("late") == JobEnd(failure=reason)

    def test_a_time_out_is_tried_again(self):
        life = HandDriven()
        life.resume()
        life.branch.step.attempt.cancel(CancelReason(timed_out("too slow"), is_final=False))
        assert life.end_attempt(error=CancelledError()) == Sleep(2.0)

    def test_a_final_reason_outweighs_a_time_out_and_stands(self):
        life = HandDriven()
        life.resume()
        attempt, reason = life.branch.step.attempt, cancelled("the job was cancelled")
        attempt.cancel(CancelReason(timed_out("too slow"), is_final=False))
        attempt.cancel(CancelReason(reason, is_final=True))
        attempt.cancel(CancelReason(timed_out("too slow"), is_final=False))
        assert life.end_attempt(error=CancelledError()) == JobEnd(failure=reason)

    def test_an_attempt_that_is_cancelled_with_the_task_of_the_run_cancels_the_run(self):
        life = HandDriven()
        life.resume()
        life.workers.is_owner_cancelled = True
        end = life.end_attempt(error=CancelledError())
        assert (life.is_run_cancelled, str(end.failure.kind)) == (True, "cancelled")

    def test_code_that_cancels_itself_has_failed_and_is_tried_again(self):
        life = HandDriven()
        life.resume()
        assert life.end_attempt(error=CancelledError()) == Sleep(2.0)

    def test_a_run_that_stops_retries_nothing(self):
        life = HandDriven()
        life.resume()
        stop = cancelled("the run was cancelled")
        life.scheduler.stop(stop)
        assert life.end_attempt(error=gm.Transient("no")) == JobEnd(failure=stop)


class TestUnsafe:
    def test_an_attempt_waits_until_its_intent_is_durable(self):
        life = HandDriven(recorder=Recorder(), effect="unsafe")
        assert life.resume() == Committed(1)
        assert life.resume() is RUN_ATTEMPT
        assert life.end_attempt(("out", b"body")) == JobEnd("out", b"body")

    def test_one_that_is_cancelled_meanwhile_never_begins(self):
        life = HandDriven(recorder=Recorder(), effect="unsafe")
        life.resume()
        life.cancel()
        assert str(life.resume().failure.kind) == "cancelled"
        assert life.recorder.rows == [("intent", ""), ("failed", "", "cancelled")]

    @pytest.mark.parametrize(
        ("error", "kind"),
        [(gm.Transient("lost"), "ambiguous"), (gm.Permanent("refused"), "permanent"), (OSError("lost"), "ambiguous")],
    )
    def test_nobody_knows_whether_what_was_lost_has_happened(self, error, kind):
        life = HandDriven(effect="unsafe")
        life.resume()
        assert str(life.end_attempt(error=error).failure.kind) == kind

    @pytest.mark.parametrize("error", [gm.Throttled("slow down"), ConnectionRefusedError()])
    def test_what_has_surely_not_happened_is_tried_again(self, error):
        life = HandDriven(effect="unsafe")
        life.resume()
        assert type(life.end_attempt(error=error)) is Sleep


class TestPrograms:
    def test_a_step_keeps_the_slot_of_the_one_before(self):
        life = HandDriven(program_of(step("a", act), step("b", act)))
        assert life.resume() is RUN_ATTEMPT
        slot = life.branch.step.slot
        assert life.end_attempt(1) is RUN_ATTEMPT
        assert life.branch.step.slot is slot
        assert life.end_attempt(2).output == [1, 2]
        assert life.scheduler.running == 0

    def test_a_step_in_another_lane_takes_a_slot_there(self):
        life = HandDriven(program_of(step("a", act), step("b", act, lane="other")))
        life.resume()
        wait = life.end_attempt(1)
        assert wait.request.lane.key == "other"
        assert life.scheduler.running == 0
        assert life.grant(wait) is RUN_ATTEMPT

    def test_a_program_hears_how_a_step_failed_for_good(self):
        def program(_):
            end = yield step("a", act, retry=RETRY)
            raise Failed(end.failure)

        life = HandDriven(Graph(program))
        life.resume()
        life.retry(gm.Transient("no"))
        end = life.end_attempt(error=gm.Permanent("never"))
        assert (end.failure.message, life.job.attempts) == ("never", 2)

    def test_a_mistake_in_a_program_fails_its_job(self):
        def program(_):
            yield step("a", act)
            raise gm.Permanent("no such name")

        life = HandDriven(Graph(program))
        life.resume()
        assert life.end_attempt(1).failure.message == "no such name"
        assert life.scheduler.running == 0

    def test_a_decision_takes_no_time_and_the_first_one_stands(self):
        life = HandDriven(program_of(Decision("d", 1), Decision("d", 2), Decision("d")), recorder=Recorder())
        assert life.resume().output == [1, 1, 1]
        assert life.recorder.rows == [("decision", "d", b"1")]

    def test_a_fork_is_waited_for_without_a_slot(self):
        fork = Several([])
        life = HandDriven(program_of(step("a", act), fork))
        life.resume()
        assert life.end_attempt(1) == RunFork(fork)
        assert life.scheduler.running == 0
        assert life.resume().output == [1, None]

    def test_a_step_is_recorded_when_its_program_goes_on_the_last_one_with_its_job(self):
        life = HandDriven(program_of(step("a", act), step("b", act)), recorder=Recorder())
        life.resume()
        life.end_attempt((1, b"1"))
        assert life.recorder.rows == [("step", "a", b"1")]
        life.end_attempt((2, b"2"))
        assert life.recorder.rows == [("step", "a", b"1")]
        assert life.job.record.last_step.path == "b"

    def test_no_step_begins_once_the_run_stops(self):
        life = HandDriven(program_of(step("a", act), step("b", act)))
        life.resume()
        stop = cancelled("the run was cancelled")
        life.scheduler.stop(stop)
        with pytest.raises(Dropped):
            life.end_attempt(1)
        assert (life.job.end_failure, life.scheduler.running) == (stop, 0)

    def test_a_branch_that_was_dropped_ends_with_its_attempt_and_gives_its_slot_back(self):
        life = HandDriven(program_of(step("a", act), step("b", act)))
        life.resume()
        life.branch.is_dropped = True
        life.cancel()
        with pytest.raises(Dropped):
            life.end_attempt(1)
        assert life.scheduler.running == 0


class TestReplay:
    KNOWN = StepOutcome(b'"then"', None, attempts=2, order=7)

    def replayed(self, *parts, **recall):
        recall = {"outcomes": {}, "intended": set(), "failed": {}} | recall
        return HandDriven(program_of(*parts), recorder=Recorder(Recall(**recall)))

    def test_a_recorded_step_is_told_in_its_turn_and_not_attempted(self):
        known = step("a", act)
        life = self.replayed(known, outcomes={("a", known.content()): self.KNOWN})
        wait = life.resume()
        assert (type(wait), wait.order, wait.value.output) == (RecordedTurn, 7, "then")
        assert life.resume(wait.value).output == ["then"]
        assert life.job.attempts == 2

    def test_a_recorded_decision_is_told_in_its_turn_too(self):
        life = self.replayed(Decision("d", "now"), outcomes={("d", b""): self.KNOWN})
        assert life.resume() == RecordedTurn(7, "then")

    def test_a_new_step_waits_until_all_that_is_recorded_is_told(self):
        life = self.replayed(step("new", act), outcomes={("a", b""): self.KNOWN})
        life.job.record.replay.add(7, life.branch, None)
        assert life.resume() is REPLAY_OVER
        assert life.resume() is RUN_ATTEMPT

    def test_a_step_of_other_content_is_another_step(self):
        life = self.replayed(step("a", act, "new"), outcomes={("a", step("a", act, "old").content()): self.KNOWN})
        assert life.resume() is RUN_ATTEMPT

    def test_failed_attempts_of_a_step_count_on(self):
        parts = [step("a", act, retry=RETRY), Decision("d", 1)]
        life = self.replayed(*parts, outcomes={("d", b""): self.KNOWN}, failed={"a": FailedAttempts(2, 2)})
        assert life.resume() is RUN_ATTEMPT
        life.end_attempt(error=gm.Transient("no"))
        assert life.job.attempts == 3

    def test_an_unsafe_step_that_may_have_happened_is_ambiguous_and_not_repeated(self):
        life = self.replayed(step("a", act, effect="unsafe"), intended={"a"})
        wait = life.resume()
        assert (type(wait), str(wait.value.failure.kind)) == (RecordedTurn, "ambiguous")
