"""What happens to one attempt: time-outs, cancellation, surprises, fences."""

import asyncio
import collections
import contextlib
import contextvars
import sys
import threading

import pytest

import graphmill as gm
from graphmill.engine import engine
from support import warm
from support.command import HANG_S
from support.driving import Peak, by_id, jobs_of, real, virtual
from support.virtual_clock import run_virtual

ONCE = gm.Retry(attempts=1)


async def echo(value):
    return value


async def forever(_):
    await asyncio.Event().wait()


def test_an_attempt_that_takes_too_long_is_cancelled_and_timed_out():
    results, run = virtual(jobs_of(forever, [1]), timeout_s=5, retry=ONCE)
    assert results[0].status is gm.Status.TIMED_OUT
    assert results[0].error.kind is gm.Kind.TIMEOUT
    assert results[0].error.message == "timed out after 5 s"
    assert run.statistics().elapsed_s == pytest.approx(5)


def test_a_time_out_is_retried_like_any_passing_failure():
    calls = []

    async def work(_):
        calls.append(1)
        if len(calls) < 3:
            await asyncio.sleep(100)
        return "at last"

    results, _ = virtual(jobs_of(work, [1]), timeout_s=5)
    assert (results[0].output, results[0].attempts) == ("at last", 3)


def test_a_job_s_time_runs_from_its_first_start_waits_included():
    async def work(_):
        await asyncio.sleep(4)
        raise gm.Transient("again")

    results, run = virtual(
        jobs_of(work, [1]), job_timeout_s=10, retry=gm.Retry(attempts=100, wait_s=4, backoff="fixed", jitter=False)
    )
    assert results[0].status is gm.Status.TIMED_OUT
    assert "job_timeout_s of 10 s" in results[0].error.message
    assert run.statistics().elapsed_s == pytest.approx(10)


def test_a_job_s_time_is_up_also_while_it_waits_for_its_retry():
    async def work(_):
        raise gm.Transient("again")

    results, run = virtual(jobs_of(work, [1]), job_timeout_s=10, retry=gm.Retry(attempts=5, wait_s=30, jitter=False))
    assert results[0].status is gm.Status.TIMED_OUT
    assert run.statistics().elapsed_s == pytest.approx(10)


def test_a_job_s_time_does_not_run_while_it_queues():
    async def work(_):
        await asyncio.sleep(8)

    results, _ = virtual(jobs_of(work, range(5)), concurrency=1, job_timeout_s=10)
    assert all(result.is_success for result in results)


def test_when_the_batch_s_time_is_up_what_runs_is_timed_out_and_the_rest_cancelled():
    async def work(value):
        await asyncio.sleep(4)
        return value

    results, run = virtual(jobs_of(work, range(8)), concurrency=2, batch_timeout_s=10)
    statuses = [by_id(results)[str(number)].status.value for number in range(8)]
    assert statuses == ["succeeded"] * 4 + ["timed_out"] * 2 + ["cancelled"] * 2
    assert run.stopped == "deadline"
    assert run.statistics().elapsed_s == pytest.approx(10)


def test_a_value_that_comes_after_the_time_out_is_fenced_off():
    async def stubborn(_):
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            return "too late"

    results, run = virtual(jobs_of(stubborn, [1]), timeout_s=5, retry=ONCE)
    assert results[0].status is gm.Status.TIMED_OUT
    assert results[0].output is None
    assert run.statistics().elapsed_s == pytest.approx(6)  # its slot was held until it ended


def test_a_function_that_swallows_cancellation_holds_the_run_no_longer_than_the_grace_period():
    async def immortal(_):
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                continue

    results, run = virtual(
        [*jobs_of(immortal, [1, 2]), gm.Job(id="good", graph=asyncio.sleep, input=1)],
        timeout_s=5,
        grace_s=3,
        retry=ONCE,
    )
    assert by_id(results)["good"].is_success
    assert by_id(results)["0"].status is gm.Status.TIMED_OUT
    assert run.statistics().elapsed_s == pytest.approx(8)
    assert run.statistics().stuck == 2


def test_a_slot_is_not_given_on_before_the_cancelled_attempt_has_ended():
    peak = Peak()

    async def slow_to_die(_):
        with peak:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                await asyncio.sleep(1.5)
                raise

    virtual(jobs_of(slow_to_die, range(6)), concurrency=2, timeout_s=5, retry=ONCE)
    assert peak.highest == 2


def test_a_plain_function_that_does_not_return_is_left_behind_and_its_late_value_fenced_off():
    gate = threading.Event()

    def stuck(_):
        gate.wait(timeout=60)
        return "too late"

    async def main():
        async with gm.BatchExecutor(gm.Policy(timeout_s=0.05, retry=ONCE, concurrency=1)).start(
            jobs_of(stuck, [1, 2])
        ) as run:
            results = [result async for result in run.results()]
            stuck_then = run.statistics().stuck
            gate.set()
            while run.statistics().stuck:  # noqa: ASYNC110  the late values come back through the loop
                await asyncio.sleep(0)
        return results, stuck_then, run

    results, stuck_then, run = asyncio.run(main())
    assert [result.status for result in results] == [gm.Status.TIMED_OUT] * 2
    assert stuck_then == 2
    assert (run.statistics().done, run.statistics().succeeded) == (2, 0)


def test_the_value_of_an_abandoned_task_does_not_become_that_of_the_next_attempt():
    calls = []

    async def work(_):
        calls.append(1)
        if len(calls) > 1:
            await asyncio.sleep(50)
            return "second"
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(30)  # beyond its grace, into the second attempt
        return "late"

    results, run = virtual(jobs_of(work, [1]), timeout_s=60, grace_s=2)
    assert [(result.output, result.attempts) for result in results] == [("second", 2)]
    assert (run.statistics().done, run.statistics().stuck) == (1, 0)


def test_the_value_of_an_abandoned_thread_does_not_become_that_of_the_next_attempt():
    calls, gate = [], threading.Event()

    async def main():
        def work(_):
            calls.append(1)
            if len(calls) == 1:
                gate.wait(timeout=60)
                return "late"
            gate.set()
            while run.statistics().stuck:  # until the late value has come back
                pass
            return "second"

        policy = gm.Policy(timeout_s=0.2, retry=gm.Retry(wait_s=0, jitter=False))
        run = gm.BatchExecutor(policy).start(jobs_of(work, [1]))
        async with run:
            return [(result.output, result.attempts) async for result in run.results()], run.statistics().done

    assert asyncio.run(main()) == ([("second", 2)], 1)


@pytest.mark.parametrize("cut", ["job_timeout_s", "cancel"])
def test_stuck_functions_are_capped_however_they_were_cut_off(monkeypatch, cut):
    monkeypatch.setattr(engine, "MAX_STUCK", 5)
    gate = threading.Event()

    async def main():
        policy = gm.Policy(concurrency=2, job_timeout_s=0.01 if cut == "job_timeout_s" else None, retry=ONCE)
        async with gm.BatchExecutor(policy).start(jobs_of(lambda _: gate.wait(timeout=60), range(50))) as run:
            while cut == "cancel" and run.stopped is None:
                for number in range(50):
                    if run.status(str(number)) is gm.Status.RUNNING:
                        run.cancel(str(number))
                await asyncio.sleep(0)
            await run.wait()
            gate.set()
            return run.stopped

    assert asyncio.run(main()) is gm.StopReason.STUCK


def test_a_keyboard_interrupt_in_an_async_function_passes_and_hangs_nothing():
    script = """
import asyncio
import graphmill as gm

async def work(value):
    if value == 3:
        raise KeyboardInterrupt
    await asyncio.sleep(0.01)

try:
    gm.batch(work, range(10))
except KeyboardInterrupt:
    print("passed")
"""
    done = warm.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=HANG_S)
    assert done.stdout == "passed\n", done.stderr


def test_two_interrupts_end_a_batch_whose_function_swallows_cancellation():
    script = """
import asyncio, os, signal, threading
import graphmill as gm

async def immortal(value):
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            os.kill(os.getpid(), signal.SIGINT)

try:
    gm.batch(immortal, [1])
except KeyboardInterrupt:
    print("interrupted")
"""
    done = warm.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=HANG_S)
    assert done.stdout == "interrupted\n", done.stderr


def test_a_run_stops_before_it_is_buried_under_stuck_threads(monkeypatch):
    monkeypatch.setattr(engine, "MAX_STUCK", 5)
    gate = threading.Event()

    results, run = real(jobs_of(lambda _: gate.wait(timeout=60), range(50)), timeout_s=0.01, retry=ONCE, concurrency=2)
    gate.set()
    assert run.stopped == "stuck"
    assert sum(result.status is gm.Status.TIMED_OUT for result in results) >= 6
    assert sum(result.status is gm.Status.CANCELLED for result in results) >= 40


class Unspeakable:
    def __format__(self, _):
        raise ValueError("no words")

    def __eq__(self, _):
        raise ValueError("like nothing")

    __hash__ = None


class Undescribed(Exception):  # noqa: N818
    __module__ = Unspeakable()


def test_an_exception_that_nothing_can_be_said_of_is_a_row_too():
    async def work(value):
        if value:
            raise Undescribed("x")

    results, _ = virtual(jobs_of(work, range(2)), retry=ONCE)
    assert by_id(results)["1"].error.message == "an exception that can't be described"


@pytest.mark.parametrize(
    ("answer", "kept"), [(42, ""), (object(), ""), ("x" * 5000, "x" * 1999 + "…")], ids=["number", "object", "text"]
)
def test_an_error_of_a_user_s_own_may_have_any_answer(tmp_path, answer, kept):
    class Wrong(gm.Permanent):
        def __init__(self):
            super().__init__("wrong")
            self.answer = answer

    async def work(_):
        raise Wrong

    (result,) = gm.batch(work, [1], journal=tmp_path / "runs.db").results()
    assert (result.error.message, result.error.answer) == ("wrong", kept)


SURPRISES = [
    SystemExit(3),
    MemoryError("full"),
    RecursionError("deep"),
    GeneratorExit(),
    StopAsyncIteration(),
    KeyError(),
]


@pytest.mark.parametrize("surprise", [*SURPRISES, BaseException("odd")], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("is_plain", [True, False])
def test_a_surprise_becomes_that_job_s_row(surprise, is_plain):
    async def raise_it(value):
        if value == "bad":
            raise surprise
        return value

    def raise_it_plainly(value):
        if value == "bad":
            raise surprise
        return value

    results, _ = real(jobs_of(raise_it_plainly if is_plain else raise_it, ["good", "bad", "fine"]), retry=ONCE)
    rows = by_id(results)
    assert [rows[key].status.value for key in "012"] == ["succeeded", "failed", "succeeded"]
    assert rows["1"].error.type == type(surprise).__name__


def test_a_plain_function_that_raises_stop_iteration_fails_like_any_other():
    def work(_):
        raise StopIteration("odd")

    results, _ = real(jobs_of(work, [1]), retry=ONCE)
    assert results[0].error.type == "StopIteration"


def test_endless_recursion_is_that_job_s_permanent_failure():
    async def dig(value):
        return await dig(value) if value == "deep" else value

    results, _ = real(jobs_of(dig, ["deep", "flat"]))
    rows = by_id(results)
    assert (rows["0"].error.kind, rows["0"].attempts) == (gm.Kind.PERMANENT, 1)
    assert len(rows["0"].error.traceback.splitlines()) < 30
    assert rows["1"].is_success


def test_a_cancellation_that_the_function_brought_on_itself_is_a_failure_not_a_cancelled_job():
    async def work(_):
        raise asyncio.CancelledError

    results, _ = virtual(jobs_of(work, [1]), retry=gm.Retry(attempts=2))
    assert (results[0].status, results[0].attempts) == (gm.Status.FAILED, 2)


def test_one_job_can_be_cancelled_whatever_it_is_doing():
    async def work(value):
        if value == "waits":
            raise gm.Transient("again")
        await asyncio.sleep(10)
        return value

    jobs = [gm.Job(id=name, graph=work, input=name) for name in ("runs", "waits", "other", "more", "queues")]

    async def main():
        policy = gm.Policy(concurrency=3, retry=gm.Retry(wait_s=50, jitter=False))
        async with gm.BatchExecutor(policy).start(jobs) as run:
            await asyncio.sleep(1)
            assert [run.status(job.id).value for job in jobs] == [
                "running",
                "retrying",
                "running",
                "running",
                "pending",
            ]
            assert run.cancel("queues") is True
            assert run.cancel("runs") is True
            assert run.cancel("waits") is True
            assert run.cancel("nobody") is False
            results = [result async for result in run.results()]
            assert run.cancel("runs") is False
            return results, asyncio.get_running_loop().time()

    results, ended_at = run_virtual(main())
    assert {result.job_id: result.status.value for result in results} == {
        "runs": "cancelled",
        "waits": "cancelled",
        "other": "succeeded",
        "more": "succeeded",
        "queues": "cancelled",
    }
    assert ended_at == pytest.approx(10)


def test_a_job_cancelled_before_it_starts_never_runs():
    ran = []

    async def work(value):
        ran.append(value)
        await asyncio.sleep(1)

    async def main():
        async with gm.BatchExecutor(gm.Policy(concurrency=1)).start(jobs_of(work, range(3))) as run:
            await asyncio.sleep(0.5)
            run.cancel("1")
            return [result async for result in run.results()]

    results = run_virtual(main())
    assert ran == [0, 2]
    assert by_id(results)["1"].attempts == 0


def test_what_a_function_does_to_its_input_is_seen_by_no_other_attempt_nor_by_the_result():
    item = {"tags": ["a"], "deep": {"list": [1]}}

    async def work(row):
        seen = len(row["tags"]), len(row["deep"]["list"])
        row["tags"].append("b")
        row["deep"]["list"].clear()
        if seen != (1, 1):
            raise gm.Permanent("somebody else's change")
        raise gm.Transient("again")

    results, _ = virtual([gm.Job(id=name, graph=work, input=item) for name in "abc"], retry=gm.Retry(attempts=3))
    assert {result.error.message for result in results} == {"again"}
    assert results[0].input == {"tags": ["a"], "deep": {"list": [1]}}


def test_a_context_variable_set_in_one_job_is_not_seen_in_another():
    mark = contextvars.ContextVar("mark", default="outer")

    async def work(_):
        seen = mark.get()
        mark.set("inner")
        return seen

    def plainly(_):
        seen = mark.get()
        mark.set("inner")
        return seen

    async def main():
        mark.set("caller")
        jobs = [*jobs_of(work, range(5)), *(gm.Job(id=f"plain-{number}", graph=plainly) for number in range(5))]
        async with gm.BatchExecutor(gm.Policy(concurrency=1)).start(jobs) as run:
            return {result.output async for result in run.results()}

    assert asyncio.run(main()) == {"caller"}


def test_a_plain_function_that_gives_a_coroutine_is_awaited():
    async def double(value):
        await asyncio.sleep(0)
        return value * 2

    class Callable:
        async def __call__(self, value):
            return value * 2

    for graph in (lambda value: double(value), Callable()):
        results, _ = real(jobs_of(graph, [1, 2]))
        assert sorted(result.output for result in results) == [2, 4]


def test_no_thread_and_no_task_is_left_after_a_run():
    before = set(threading.enumerate())

    async def main():
        source = (gm.Job(id=str(number), graph=lambda value: value) for number in range(100))
        async with gm.BatchExecutor(on_result=lambda *_: None, observers=[lambda _: None]).start(source) as run:
            await run.wait()
        return asyncio.all_tasks()

    assert len(asyncio.run(main())) == 1
    assert set(threading.enumerate()) == before


def test_a_cancelled_job_that_is_slow_to_die_is_not_brought_back_by_its_time_out():
    async def slow_to_die(_):
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            raise

    async def main():
        async with gm.BatchExecutor(gm.Policy(timeout_s=5)).start(jobs_of(slow_to_die, [1])) as run:
            await asyncio.sleep(4.5)
            run.cancel("0")
            return [result async for result in run.results()], asyncio.get_running_loop().time()

    results, now = run_virtual(main())
    assert (results[0].status, results[0].attempts) == (gm.Status.CANCELLED, 1)
    assert now == pytest.approx(5.5)


def test_a_fault_of_our_own_ends_the_run_with_an_error_and_never_hangs_it(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr("graphmill.engine.scheduling.scheduler.Scheduler.finish", broken)
    with pytest.raises(gm.InternalError, match="ZeroDivisionError: a fault of ours"):
        virtual(jobs_of(asyncio.sleep, [1, 2, 1000]))


def test_where_the_system_gives_no_more_threads_those_there_are_do_the_work(monkeypatch):
    started = []
    start = threading.Thread.start

    def miserly(thread):
        if "graphmill" in thread.name and len(started) == 3:
            raise RuntimeError("can't start new thread")
        if "graphmill" in thread.name:
            started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", miserly)
    results, _ = real(jobs_of(lambda value: value, range(200)), concurrency=50)
    assert len(started) == 3
    assert all(result.is_success for result in results)


def test_a_task_factory_of_the_caller_s_such_as_the_eager_one_is_not_used_for_attempts():
    made = []

    def factory(loop, work, **options):
        made.append(work)
        return asyncio.Task(work, loop=loop, **options)

    async def main():
        asyncio.get_running_loop().set_task_factory(factory)
        async with gm.BatchExecutor().start(jobs_of(echo, range(50))) as run:
            return await run.wait()

    assert asyncio.run(main()).succeeded == 50
    assert len(made) < 5  # the caller's own


@pytest.mark.parametrize("grace_s", [0, 2])
def test_a_job_cancelled_between_its_start_and_its_first_step_never_runs_and_is_not_stuck(grace_s):
    ran = []

    async def work(value):
        ran.append(value)

    async def main():
        async with gm.BatchExecutor(gm.Policy(grace_s=grace_s)).start(jobs_of(work, [1])) as run:
            while run.status("0") is not gm.Status.RUNNING:  # noqa: ASYNC110  turn by turn
                await asyncio.sleep(0)
            run.cancel("0")
            statistics = await run.wait()
            return statistics, asyncio.get_running_loop().time()

    statistics, now = run_virtual(main())
    assert ran == []
    assert (statistics.cancelled, statistics.stuck, now) == (1, 0, 0)


def test_no_turn_of_the_loop_starts_more_than_twenty_attempts():
    async def main():
        loop, turn, starts = asyncio.get_running_loop(), 0, collections.Counter()

        def count():
            nonlocal turn
            turn += 1
            loop.call_soon(count)

        async def work(_):
            starts[turn] += 1

        loop.call_soon(count)
        async with gm.BatchExecutor(gm.Policy(concurrency=2000)).start(jobs_of(work, range(5000))) as run:
            await run.wait()
        return starts

    starts = asyncio.run(main())
    assert starts.total() == 5000
    assert max(starts.values()) == 20


def test_after_a_run_no_timer_is_left():
    async def work(value):
        if value == "wait":
            raise gm.Transient("later")
        await asyncio.sleep(5)
        raise gm.Permanent("now")

    async def main():
        policy = gm.Policy(on_failure="fail_fast", job_timeout_s=500, batch_timeout_s=5000, retry=gm.Retry(wait_s=50))
        async with gm.BatchExecutor(policy).start(jobs_of(work, ["wait", "fail"])) as run:
            await run.wait()
        return [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]

    assert run_virtual(main()) == []


def test_a_run_whose_clean_up_is_cancelled_too_leaves_no_thread_and_no_task():
    gate = threading.Event()

    def source():
        yield gm.Job(id="a", graph=echo)
        gate.wait(timeout=60)

    async def main():
        before = set(threading.enumerate())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2), gm.BatchExecutor(on_progress=lambda _: None).start(source()) as run:
                async for _ in run.results():
                    break
        gate.set()
        left = set(threading.enumerate()) - before
        for thread in left:
            await asyncio.to_thread(thread.join, 60)
        return [thread.name for thread in left if thread.is_alive()], len(asyncio.all_tasks())

    assert asyncio.run(main()) == ([], 1)


def test_an_output_that_can_not_be_asked_what_it_is_harms_no_other():
    class Proxy:
        @property
        def __class__(self):
            raise RuntimeError("unbound")

    proxy = Proxy()
    results, _ = real(jobs_of(lambda value: proxy if value == 3 else value, range(10)))
    assert all(result.is_success for result in results)
    assert by_id(results)["3"].output is proxy


def test_functions_end_in_order_though_the_one_who_leaves_the_run_is_cancelled():
    ended = []

    async def work(value):
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            ended.append(value)

    async def main():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5), gm.BatchExecutor(gm.Policy(grace_s=2)).start(jobs_of(work, range(5))):
                await asyncio.sleep(4.5)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(5.5)
    assert sorted(ended) == list(range(5))


def test_a_thread_of_asyncio_s_own_that_is_stuck_does_not_hold_the_end_of_the_plain_form():
    script = """
import asyncio, time
import graphmill as gm

async def work(value):
    return await asyncio.to_thread(time.sleep, 3600) if value else await asyncio.to_thread(str, value)

print(gm.batch(work, range(2), policy=gm.Policy(timeout_s=0.2, retry=gm.Retry(attempts=1))).summary())
"""
    done = warm.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=HANG_S)
    assert done.stdout == "1/2 items succeeded, 1 failed\n", done.stderr


def test_a_job_that_cancels_every_task_it_can_find_hangs_nothing():
    async def rampage(value):
        if value == 0:
            for task in asyncio.all_tasks() - {asyncio.current_task(), outer}:
                task.cancel()
        return value

    async def main():
        nonlocal outer
        outer = asyncio.current_task()
        async with gm.BatchExecutor(gm.Policy(timeout_s=None, retry=gm.Retry(wait_s=0))).start(
            jobs_of(rampage, range(50))
        ) as run:
            return await run.wait()

    outer = None
    assert run_virtual(main()).succeeded == 50
