"""What the holder of a live run can do with it: hold it, go on, let it run out, end it, end one job; from any thread."""

import asyncio
import threading
import time
from contextlib import suppress

import pytest

import graphmill as gm
from graphmill.engine.monitor import events
from graphmill.engine.monitor.machine import Reading
from support.driving import Calm, by_id, executor, jobs_of
from support.virtual_clock import run_virtual

TRANSIENT = gm.Transient("once more")


class Started:
    """A function that notes when it was started, then takes its time; with a failure, it fails the first time."""

    def __init__(self, takes_s=10.0, *, failure=None):
        self.at = []
        self._takes_s = takes_s
        self._failure = failure

    async def __call__(self, value):
        self.at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._takes_s)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return value


async def forever(_):
    await asyncio.Event().wait()


_immortals = []  # else a garbage collector would end them when their loop is gone


async def immortal(_):
    _immortals.append(asyncio.current_task())
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


def controlled(jobs, script, *, observers=(), **policy):
    """Run jobs on the virtual clock, and a script of controls beside them; give the results, the run, its time, what the script gave."""

    async def main():
        loop = asyncio.get_running_loop()
        async with executor(observers=observers, **policy).start(jobs) as run, asyncio.TaskGroup() as group:
            control = group.create_task(script(run, _until(loop, loop.time())))
            results = [result async for result in run.results()]
        return results, run, loop.time(), control.result()

    return run_virtual(main())


def _until(loop, start):
    async def until(second):
        await asyncio.sleep(start + second - loop.time())

    return until


def statuses(results):
    return [result.status.value for result in sorted(results, key=lambda result: result.position)]


def assert_each_once(results, count):
    assert sorted(int(result.job_id) for result in results) == list(range(count))


def test_while_paused_nothing_starts_and_what_runs_goes_on():
    work, told = Started(), []

    async def note(event):  # on the loop: a thread lives in real time
        told.append(event)

    async def script(run, until):
        await until(5)
        answers = [run.pause(), run.pause()]
        await until(50)
        held = run.progress()
        await until(100)
        return held, [*answers, run.unpause(), run.unpause()], run.progress().held

    results, run, _, (held, answers, held_after) = controlled(
        jobs_of(work, range(6)), script, concurrency=2, observers=[note]
    )
    assert statuses(results) == ["succeeded"] * 6
    assert work.at == [0, 0, 100, 100, 110, 110]
    assert (held.held, held.running, held.queued, held.succeeded) == ("paused", 0, 4, 2)
    assert answers == [True, False, True, False]
    assert held_after is None
    marks = [
        (type(event), event.at_s) for event in told if isinstance(event, events.StartsHeld | events.StartsReleased)
    ]
    assert marks == [(events.StartsHeld, 5), (events.StartsReleased, 100)]
    assert next(event for event in told if isinstance(event, events.StartsHeld)).reason == "paused"
    assert run.stopped is None
    assert run.statistics().held_s == pytest.approx(95, abs=1)


def test_a_machine_that_has_room_again_does_not_end_a_pause():
    told, machine = [], Calm()
    machine.read = lambda: Reading(memory=0.99, cpu=0.1)

    async def note(event):
        if isinstance(event, events.StartsHeld | events.StartsReleased):
            told.append((type(event), event.at_s))

    async def main():
        async with executor(machine=machine, observers=[note], concurrency=2).start(
            jobs_of(Started(), range(6))
        ) as run:
            await asyncio.sleep(5)
            run.pause()
            machine.read = Calm().read
            await asyncio.sleep(60)
            run.unpause()
            await run.wait()

    run_virtual(main())
    assert told == [(events.StartsHeld, 0), (events.StartsHeld, 5), (events.StartsReleased, 65)]


def test_while_paused_retries_wait_too():
    work = Started(1, failure=TRANSIENT)

    async def script(run, until):
        await until(0.5)
        run.pause()
        await until(60)
        waiting = run.progress()
        run.unpause()
        return waiting

    retry = gm.Retry(attempts=2, wait_s=5, jitter=False)
    results, _, _, waiting = controlled(jobs_of(work, [1]), script, retry=retry)
    assert (statuses(results), results[0].attempts) == (["succeeded"], 2)
    assert work.at == [0, 60]
    assert (waiting.queued, waiting.retrying) == (1, 0)


def test_a_paused_run_can_be_left_drained_or_cancelled():
    for end, status in ((gm.Run.drain, "pending"), (gm.Run.cancel, "cancelled")):

        async def script(run, until, end=end):
            run.pause()
            await until(5)
            return end(run), run.pause()

        results, _, took_s, answers = controlled(jobs_of(Started(), range(3)), script)
        assert statuses(results) == [status] * 3
        assert took_s < 6
        assert answers == (True, False)


def test_a_time_that_is_over_is_over_in_a_paused_run_too():
    async def script(run, until):
        run.pause()
        await until(0)

    results, run, took_s, _ = controlled(jobs_of(Started(), range(3)), script, batch_timeout_s=30)
    assert statuses(results) == ["cancelled"] * 3
    assert run.stopped == "deadline"
    assert took_s < 31


def test_a_drained_run_starts_nothing_more_and_what_runs_ends_by_itself():
    work = Started()

    async def script(run, until):
        await until(15)
        return run.drain()

    results, run, took_s, answer = controlled(jobs_of(work, range(20)), script, concurrency=2)
    assert answer
    assert_each_once(results, 20)
    assert statuses(results) == ["succeeded"] * 4 + ["pending"] * 16
    assert len(work.at) == 4
    assert took_s == pytest.approx(20, abs=0.1)  # not the 25 s of the drain
    assert run.stopped == "request"
    left = by_id(results)["19"]
    assert (left.error.kind, left.error.message, left.attempts) == ("paused", "stopped before it was done", 0)


@pytest.mark.parametrize(("work", "grace_s"), [(forever, 0), (immortal, 2)])
def test_what_has_not_ended_when_the_drain_is_over_is_paused(work, grace_s):
    async def script(run, until):
        await until(5)
        return run.drain()

    results, run, took_s, _ = controlled(jobs_of(work, range(20)), script, concurrency=2, drain_s=7)
    assert_each_once(results, 20)
    assert statuses(results) == ["pending"] * 20
    assert sorted(result.attempts for result in results) == [0] * 18 + [1] * 2
    assert took_s == pytest.approx(5 + 7 + grace_s, abs=0.1)
    assert run.stopped == "request"


@pytest.mark.parametrize(
    ("failure", "attempts", "status"),
    [
        (TRANSIENT, 3, "pending"),
        (TRANSIENT, 1, "failed"),
        (gm.Throttled("slow down"), 1, "pending"),
        (gm.Permanent("never"), 3, "failed"),
    ],
)
def test_a_failure_during_a_drain_is_paused_if_there_would_have_been_another_attempt(failure, attempts, status):
    async def script(run, until):
        await until(5)
        run.drain()

    results, _, took_s, _ = controlled(
        jobs_of(Started(failure=failure), [1]), script, retry=gm.Retry(attempts=attempts)
    )
    assert statuses(results) == [status]
    assert results[0].attempts == 1
    assert took_s < 11


def test_a_job_that_waits_for_its_retry_is_paused_at_once():
    async def script(run, until):
        await until(20)
        run.drain()

    retry = gm.Retry(attempts=2, wait_s=60, jitter=False)
    results, _, took_s, _ = controlled(jobs_of(Started(failure=TRANSIENT), [1]), script, retry=retry)
    assert (statuses(results), results[0].attempts) == (["pending"], 1)
    assert took_s < 21


def test_an_attempt_that_times_out_during_a_drain_has_its_time_out():
    async def script(run, until):
        await until(5)
        run.drain()

    results, _, took_s, _ = controlled(jobs_of(forever, [1]), script, timeout_s=10, retry=gm.Retry(attempts=1))
    assert statuses(results) == ["timed_out"]
    assert took_s < 11


@pytest.mark.parametrize(("again_s", "ends_at_s"), [(3, 13), (100, 110), (0, 10)])
def test_a_second_drain_sets_the_time_anew(again_s, ends_at_s):
    async def script(run, until):
        await until(5)
        first = run.drain(60)
        await until(10)
        return first, run.drain(again_s)

    results, _, took_s, answers = controlled(jobs_of(forever, range(5)), script, concurrency=2)
    assert answers == (True, True)
    assert_each_once(results, 5)
    assert statuses(results) == ["pending"] * 5
    assert took_s == pytest.approx(ends_at_s, abs=0.1)


@pytest.mark.parametrize("is_drained_before", [True, False])
def test_a_drain_of_no_time_gives_what_swallows_cancellation_half_a_second_whatever_its_grace(is_drained_before):
    async def script(run, until):
        await until(5)
        if is_drained_before:
            run.drain()
        run.drain(0)

    results, run, took_s, _ = controlled(jobs_of(immortal, range(5)), script, concurrency=2, grace_s=600)
    assert statuses(results) == ["pending"] * 5
    assert took_s == pytest.approx(5.5, abs=0.1)
    assert run.statistics().stuck == 2


def test_a_drain_of_no_time_does_not_wait_for_the_grace_of_a_run_that_was_cancelled_before():
    async def script(run, until):
        await until(5)
        run.cancel()
        await until(10)
        return run.drain(0)

    results, _, took_s, _ = controlled(jobs_of(immortal, range(5)), script, concurrency=2, grace_s=600)
    assert statuses(results) == ["cancelled"] * 5
    assert took_s == pytest.approx(10.5, abs=0.1)


def test_a_run_that_is_cancelled_while_it_drains_ends_now():
    async def script(run, until):
        await until(5)
        run.drain()
        await until(6)
        return run.cancel(), run.cancel()

    results, run, took_s, answers = controlled(jobs_of(forever, range(5)), script, concurrency=2)
    assert statuses(results) == ["cancelled"] * 2 + ["pending"] * 3
    assert took_s == pytest.approx(6, abs=0.1)
    assert answers == (True, False)
    assert run.stopped == "request"


def test_a_run_that_was_cancelled_is_not_drained():
    async def script(run, until):
        await until(5)
        return run.cancel(), run.drain()

    results, run, _, answers = controlled(jobs_of(forever, range(5)), script, concurrency=2)
    assert statuses(results) == ["cancelled"] * 5
    assert (run.stopped, answers) == ("cancelled", (True, False))


def test_a_run_at_its_end_can_be_controlled_no_more():
    async def main():
        async with executor().start(jobs_of(Started(), range(3))) as run:
            results = [result async for result in run.results()]
            at_end = run.drain(), run.drain(0), run.cancel(), run.pause()
        return results, at_end, (run.drain(), run.drain(0), run.cancel(), run.unpause()), run.stopped

    results, at_end, after, stopped = run_virtual(main())
    assert statuses(results) == ["succeeded"] * 3
    assert at_end == after == (False,) * 4
    assert stopped is None


def test_a_run_can_be_drained_before_it_has_taken_its_first_item():
    async def main():
        async with executor().start(jobs_of(Started(), range(3))) as run:
            answer = run.drain()
            return answer, [result async for result in run.results()], run.stopped

    assert run_virtual(main()) == (True, [], "request")


@pytest.mark.parametrize("within_s", [-1, "5", float("nan"), True])
def test_a_drain_within_no_number_of_seconds_is_refused(within_s):
    async def main():
        async with executor().start(jobs_of(Started(), range(3))) as run:
            with pytest.raises(gm.UsageError, match="within_s must be a number of seconds"):
                run.drain(within_s)
            return await run.wait()

    assert run_virtual(main()).succeeded == 3


def test_one_job_is_cancelled_wherever_it_stands_and_the_others_go_on():
    work = {"0": Started(failure=TRANSIENT), "1": Started(), "2": Started(), "3": Started(), "4": Started()}
    jobs = [gm.Job(id=name, graph=function, input=name) for name, function in work.items()]

    async def script(run, until):
        await until(5)
        answers = [run.cancel("1"), run.cancel("4"), run.cancel("4"), run.cancel("stranger")]
        await until(12)
        return [*answers, run.cancel("0"), run.cancel("1")]

    retry = gm.Retry(attempts=2, wait_s=60, jitter=False)
    results, run, took_s, answers = controlled(jobs, script, concurrency=2, retry=retry)
    assert_each_once(results, 5)
    assert statuses(results) == ["cancelled", "cancelled", "succeeded", "succeeded", "cancelled"]
    assert [by_id(results)[name].attempts for name in "014"] == [1, 1, 0]
    assert answers == [True, True, False, False, True, False]
    assert work["4"].at == []
    assert took_s == pytest.approx(20, abs=0.1)
    assert run.stopped is None


def test_one_job_can_be_cancelled_while_the_run_drains():
    async def script(run, until):
        await until(5)
        run.drain()
        return run.cancel("0")

    results, _, took_s, answer = controlled(jobs_of(Started(), range(3)), script, concurrency=2)
    assert answer
    assert statuses(results) == ["cancelled", "succeeded", "pending"]
    assert took_s == pytest.approx(10, abs=0.1)


def test_controls_work_from_other_threads_all_at_once():
    errors = []

    def control(run, is_over):
        try:
            while not is_over.is_set():
                run.pause()
                run.set_concurrency(5)
                assert run.progress().concurrency <= 7
                run.cancel("250")
                run.unpause()
                run.set_concurrency(7)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    async def work(value):
        await asyncio.sleep(0)
        return value

    async def main():
        is_over = threading.Event()
        async with executor(concurrency=5).start(jobs_of(work, range(500))) as run:
            threads = [threading.Thread(target=control, args=(run, is_over)) for _ in range(4)]
            for thread in threads:
                thread.start()
            results = []
            async for result in run.results():
                results.append(result)
            is_over.set()
            await asyncio.to_thread(lambda: [thread.join() for thread in threads])
        return results

    results = asyncio.run(main())
    assert errors == []
    assert_each_once(results, 500)
    assert {result.status.value for result in results if result.job_id != "250"} == {"succeeded"}


def test_a_run_is_drained_from_another_thread():
    both_run, gate, answers = threading.Barrier(3), threading.Event(), []

    def work(value):
        both_run.wait(60)
        gate.wait(60)
        return value

    def drain(run):
        both_run.wait(60)
        answers.append(run.drain())
        gate.set()

    async def main():
        async with executor(concurrency=2).start(jobs_of(work, range(10))) as run:
            thread = threading.Thread(target=drain, args=(run,))
            thread.start()
            results = [result async for result in run.results()]
            await asyncio.to_thread(thread.join)
        return results, run

    results, run = asyncio.run(main())
    assert answers == [True]
    assert statuses(results) == ["succeeded"] * 2 + ["pending"] * 8
    assert run.stopped == "request"


def test_a_question_to_a_run_that_is_just_ending_is_answered_at_once():
    waits, errors = [], []

    def ask(runs, is_over):
        while not is_over.is_set():
            asked_at = time.monotonic()
            try:
                for run in runs:
                    run.progress(), run.drain(), run.unpause()
            except BaseException as error:  # noqa: BLE001
                errors.append(error)
            waits.append(time.monotonic() - asked_at)

    for _ in range(20):
        runs, is_over = [], threading.Event()
        thread = threading.Thread(target=ask, args=(runs, is_over))
        thread.start()
        gm.batch(lambda value: value, range(20), on_start=runs.append)
        is_over.set()
        thread.join()
    assert errors == []
    assert max(waits) < 10


def test_the_time_for_which_starts_were_held_is_exact():
    async def script(run, until):
        await until(1.1)
        run.pause()
        await until(1.3)
        run.unpause()
        await until(2.2)
        run.pause()
        await until(2.4)
        return run.statistics().held_s

    _, run, _, held_s = controlled(jobs_of(Started(), range(3)), script, concurrency=1, batch_timeout_s=5)
    assert held_s == pytest.approx(0.4)
    assert run.statistics().held_s == pytest.approx(0.2 + 5 - 2.2)


def test_a_control_of_a_run_that_is_over_answers_no():
    async def script(run, until):
        await until(100)
        return run.pause(), run.unpause(), run.drain(), run.cancel(), run.set_concurrency(5), run.cancel("0")

    *_, answers = controlled(jobs_of(Started(), range(3)), script)
    assert answers == (False,) * 6


def test_a_control_of_a_run_whose_loop_is_closed_answers_no():
    _, run, *_ = controlled(jobs_of(Started(), range(3)), lambda _run, until: until(0))
    assert (run.pause(), run.unpause(), run.drain(), run.cancel(), run.set_concurrency(5)) == (False,) * 5
