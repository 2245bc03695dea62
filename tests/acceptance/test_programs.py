"""Jobs that are made of steps: each step has slots, retries and time-outs of its own."""

import asyncio

import pytest

import graphmill as gm
from graphmill.core.usage import Usage
from graphmill.engine.jobs.context import find_context
from graphmill.engine.jobs.program import Failed, Finished
from support.driving import by_id, jobs_of, virtual
from support.programs import Graph, Several, step


def sleeping(calls=None):
    async def act(seconds):
        if calls is not None:
            calls.append(("begin", seconds, asyncio.get_running_loop().time()))
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if calls is not None:
                calls.append(("cancelled", seconds, asyncio.get_running_loop().time()))
            raise
        return seconds

    return act


def one(make, value=None, **policy):
    results, run = virtual(jobs_of(Graph(make), [value]), **policy)
    return results[0], run


def test_steps_run_one_after_the_other_and_each_hears_of_the_last():
    async def add(pair):
        return sum(pair)

    def program(value):
        first = yield step("first", add, (value, 1))
        second = yield step("second", add, (first.output, 10))
        return Finished({"sum": second.output}, {"note": 1})

    result, _ = one(program, 5)
    assert (result.status, result.output, result.attempts, dict(result.metadata)) == (
        "succeeded",
        {"sum": 16},
        1,
        {"note": 1},
    )


def test_a_step_that_fails_is_tried_again_and_the_program_hears_how_it_ended():
    calls = []

    async def fail(_):
        calls.append(asyncio.get_running_loop().time())
        raise gm.Transient("no")

    def program(_):
        end = yield step("a", fail)
        return Finished([end.failure.message, end.attempts], {})

    result, run = one(program)
    assert (result.output, result.attempts, calls) == (["no", 3], 3, pytest.approx([0, 1, 2]))
    assert run.statistics().retries == 2


def test_a_program_that_fails_fails_its_job_with_that_failure():
    async def fail(_):
        raise gm.Permanent("never")

    def program(_):
        end = yield step("a", fail)
        raise Failed(end.failure)

    result, _ = one(program)
    assert (result.status, result.error.message, result.error.kind) == ("failed", "never", "permanent")


def test_an_error_in_a_program_fails_its_job():
    def program(_):
        if False:
            yield
        raise gm.Permanent("${a} is missing")

    result, _ = one(program)
    assert (result.status, result.error.message, result.attempts) == ("failed", "${a} is missing", 0)


def test_a_fork_runs_its_programs_side_by_side_and_no_more_at_once_than_it_wants():
    calls = []
    act = sleeping(calls)

    def child(seconds):
        end = yield step(f"child {seconds}", act, seconds)
        return end.output

    def program(_):
        fork = Several((child(seconds) for seconds in (3, 1, 2)), limit=2)
        yield fork
        return Finished(fork.values, {})

    result, _ = one(program)
    assert result.output == [1, 3, 2]
    assert calls == [("begin", 3, 0), ("begin", 1, 0), ("begin", 2, 1)]


def test_strands_are_held_to_the_concurrency_of_the_run_at_any_depth():
    running, most = [], []

    async def act(_):
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(1)
        running.pop()

    def leaf(path):
        yield step(path, act)

    def branch(path):
        yield Several(leaf(f"{path}/{index}") for index in range(4))

    def program(value):
        yield Several(branch(f"{value}/{index}") for index in range(4))
        return Finished(None, {})

    results, _ = virtual(jobs_of(Graph(program), range(3)), concurrency=5)
    assert [result.status for result in results] == ["succeeded"] * 3
    assert (max(most), len(most)) == (5, 48)


def test_an_empty_fork_is_over_at_once():
    def program(_):
        fork = Several([])
        yield fork
        return Finished(fork.values, {})
        yield

    assert one(program)[0].output == []


def test_a_thousand_strands_that_need_no_attempt_end_without_going_deep():
    def child(number):
        return number
        yield

    def program(_):
        fork = Several(child(number) for number in range(5000))
        yield fork
        return Finished(len(fork.values), {})

    assert one(program)[0].output == 5000


def test_a_fork_that_is_stopped_cancels_what_runs_and_waits_for_it():
    calls = []
    act = sleeping(calls)

    def good(seconds):
        yield step(f"good {seconds}", act, seconds)

    async def fail(_):
        await asyncio.sleep(1)
        raise gm.Permanent("never")

    def bad():
        end = yield step("bad", fail)
        raise Failed(end.failure)

    def program(_):
        fork = Several([good(5), bad(), good(6), good(7)], limit=3, stop_on_failure=True)
        yield fork
        end = yield step("after", act, 1)
        return Finished([fork.values, end.output], {})

    result, run = one(program)
    assert result.output == [["never"], 1]
    assert calls == [("begin", 5, 0), ("begin", 6, 0), ("cancelled", 5, 1), ("cancelled", 6, 1), ("begin", 1, 1)]
    assert run.progress().running == 0


def test_a_fork_that_is_stopped_waits_for_what_runs_in_the_forks_inside_it():
    calls = []

    async def slow_to_end(_):
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            calls.append(("gone", asyncio.get_running_loop().time()))
            raise

    def leaf():
        yield step("slow", slow_to_end)

    def branch():
        yield Several([leaf()])

    def program(_):
        yield Several([branch()], timeout_s=5)
        yield step("after", sleeping(calls), 0)
        return Finished(None, {})

    result, _ = one(program, grace_s=2)
    assert result.status == "succeeded"
    assert calls == [("gone", 6), ("begin", 0, 6)]


def test_a_step_that_runs_out_of_time_together_with_its_fork_is_not_tried_again():
    calls = []

    def late():
        yield step("first", sleeping(), 3)
        yield step("last", sleeping(calls), 100, timeout_s=2)

    def program(_):
        fork = Several([late()], timeout_s=5)
        yield fork
        return Finished(fork.values, {})

    result, _ = one(program, grace_s=0.5)
    assert (result.output, result.duration_s) == (["expired"], pytest.approx(5))
    assert [call[0] for call in calls] == ["begin", "cancelled"]


def test_a_fork_has_a_time_of_its_own():
    act = sleeping()

    def child():
        for number in range(9):
            yield step(f"round {number}", act, 2)

    def program(_):
        fork = Several([child()], timeout_s=5)
        yield fork
        return Finished(fork.values, {})

    result, _ = one(program)
    assert (result.output, result.duration_s) == (["expired"], pytest.approx(5))


def test_a_step_has_a_time_out_of_its_own():
    act = sleeping()

    def program(_):
        end = yield step("slow", act, 100, timeout_s=2)
        return Finished([end.failure.kind, end.attempts], {})

    result, _ = one(program, timeout_s=50)
    assert (result.output, result.duration_s) == (["timeout", 3], pytest.approx(8))


def test_a_job_that_takes_too_long_ends_with_all_its_strands():
    calls = []
    act = sleeping(calls)

    def child(seconds):
        yield step(f"child {seconds}", act, seconds)

    def program(_):
        yield Several([child(50), child(60), child(70)])
        return Finished(None, {})

    result, run = one(program, job_timeout_s=5, concurrency=2)
    assert (result.status, result.duration_s) == ("timed_out", pytest.approx(5))
    assert [call[0] for call in calls] == ["begin", "begin", "cancelled", "cancelled"]
    assert (run.progress().running, run.progress().queued) == (0, 0)


def test_a_step_that_waits_for_its_next_attempt_holds_no_slot():
    started = []

    async def act(name):
        started.append((name, asyncio.get_running_loop().time()))
        if name == "a":
            raise gm.Transient("no")
        await asyncio.sleep(3)

    def program(name):
        yield step(name, act, name, retry=gm.Retry(attempts=2, wait_s=1, jitter=False))
        return Finished(None, {})

    virtual(jobs_of(Graph(program), ["a", "b"]), concurrency=1)
    assert started == [("a", 0), ("b", 0), ("a", 3)]


def test_started_jobs_are_finished_before_others_begin():
    order = []

    async def act(path):
        order.append(path)
        await asyncio.sleep(1)

    def program(value):
        for number in range(3):
            yield step(f"{value}.{number}", act, f"{value}.{number}")
        return Finished(None, {})

    virtual(jobs_of(Graph(program), "abc"), concurrency=1)
    assert order == [f"{name}.{number}" for name in "abc" for number in range(3)]


def test_usage_of_all_steps_and_of_failed_attempts_adds_up():
    attempts = []

    async def act(_):
        find_context().report(Usage(requests=1, output_tokens=10, cost_nano=500_000_000), "own/m")
        attempts.append(1)
        if len(attempts) == 1:
            raise gm.Transient("no")

    def child(path):
        yield step(path, act)

    def program(_):
        yield step("a", act)
        yield Several([child("b"), child("c")])
        return Finished(None, {})

    result, _ = one(program)
    assert (result.usage["requests"], result.usage["output_tokens"], result.cost_usd) == (4, 40, 2.0)


@pytest.mark.parametrize("within_s", [0, 25])
def test_a_drained_run_keeps_what_was_done_and_ends_its_jobs_as_paused(within_s):
    calls = []
    act = sleeping(calls)

    def child(path):
        yield step(path, act, 2)
        yield step(f"{path} again", act, 2)

    def program(_):
        yield Several([child("b"), child("c")])
        yield step("d", act, 3)
        return Finished(None, {})

    def drain(run):
        asyncio.get_running_loop().call_later(1, run.drain, within_s)

    results, run = virtual(jobs_of(Graph(program), [1, 2]), concurrency=3, on_run=drain)
    assert [result.status for result in results] == ["pending", "pending"]
    assert len([call for call in calls if call[0] == "begin"]) == 3
    assert (run.progress().running, run.progress().queued, run.progress().retrying) == (0, 0, 0)


def test_one_job_can_be_cancelled_while_others_go_on():
    act = sleeping()

    def program(_):
        yield step("a", act, 5)
        yield step("b", act, 5)
        return Finished("done", {})

    def cancel(run):
        asyncio.get_running_loop().call_later(7, run.cancel, "0")

    results, _ = virtual(jobs_of(Graph(program), [1, 2]), on_run=cancel)
    assert {name: result.status for name, result in by_id(results).items()} == {"0": "cancelled", "1": "succeeded"}


def test_a_fork_that_is_reached_while_the_run_is_drained_begins_nothing():
    act = sleeping()

    def leaf(path):
        yield step(path, act, 2)
        return path

    def branch(path):
        yield step(path, act, 2)
        fork = Several([leaf(f"{path}/{index}") for index in range(3)])
        yield fork
        return len(fork.values[0])

    class Strict(Several):
        def ended(self, program, value, failure):
            assert value is not None
            super().ended(program, value, failure)

    def program(_):
        yield Strict([branch("a")])
        return Finished(None, {})

    results, run = virtual(
        jobs_of(Graph(program), [1]), on_run=lambda run: asyncio.get_running_loop().call_later(1, run.drain, 25)
    )
    assert [result.status for result in results] == ["pending"]
    assert (run.progress().running, run.progress().queued) == (0, 0)
