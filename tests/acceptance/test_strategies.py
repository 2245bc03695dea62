"""What a failure means for the others."""

import asyncio

import pytest

import graphmill as gm
from support.driving import by_id, jobs_of, virtual
from support.virtual_clock import run_virtual

ONCE = gm.Retry(attempts=1)


def statuses(results):
    return [result.status.value for result in sorted(results, key=lambda result: result.position)]


async def fail_if_bad(value):
    await asyncio.sleep(1)
    if value == "bad":
        raise gm.Permanent("bad")
    return value


def test_under_continue_one_failure_cancels_no_sibling():
    results, run = virtual(jobs_of(fail_if_bad, ["good", "bad", "good", "bad", *["good"] * 20]), concurrency=4)
    assert statuses(results) == ["succeeded", "failed", "succeeded", "failed", *["succeeded"] * 20]
    assert run.stopped is None


def test_fail_fast_cancels_what_runs_keeps_what_finished_and_calls_the_rest_cancelled():
    ended = []

    async def work(value):
        try:
            await asyncio.sleep(value)
        except asyncio.CancelledError:
            ended.append(value)
            raise
        if value == 2:
            raise gm.Permanent("bad")

    async def main():
        async with gm.BatchExecutor(gm.Policy(concurrency=3, on_failure="fail_fast")).start(
            jobs_of(work, [1, 2, 50, 60, 70, 80])
        ) as run:
            results = [result async for result in run.results()]
            return results, run.stopped, asyncio.get_running_loop().time()

    results, stopped, now = run_virtual(main())
    assert statuses(results) == ["succeeded", "failed", "cancelled", "cancelled", "cancelled", "cancelled"]
    assert ended == [50, 60]  # really cancelled
    assert stopped == "fail_fast"
    assert now == pytest.approx(2)


def test_fail_fast_waits_for_retries_first():
    calls = []

    async def work(value):
        calls.append(value)
        if len(calls) < 3:
            raise gm.Transient("passing")

    results, run = virtual(jobs_of(work, ["x"]), on_failure="fail_fast")
    assert statuses(results) == ["succeeded"]
    assert run.stopped is None


def test_fail_fast_admits_no_more():
    async def source():
        for number in range(100_000):
            yield gm.Job(id=str(number), graph=fail_if_bad, input="bad" if number == 5 else "good")

    results, _ = virtual(source(), concurrency=2, window=10, on_failure="fail_fast")
    assert len(results) < 30


def test_so_many_failures_are_tolerated_and_not_one_more():
    tolerated, _ = virtual(jobs_of(fail_if_bad, ["bad"] * 3 + ["good"] * 20), concurrency=1, max_failures=3)
    assert statuses(tolerated) == ["failed"] * 3 + ["succeeded"] * 20
    stopped, run = virtual(jobs_of(fail_if_bad, ["bad"] * 4 + ["good"] * 20), concurrency=1, max_failures=3)
    assert statuses(stopped) == ["failed"] * 4 + ["cancelled"] * 20
    assert run.stopped == "max_failures"


def test_no_failures_tolerated_is_zero_of_them():
    results, _ = virtual(jobs_of(fail_if_bad, ["good", "bad", "good"]), concurrency=1, max_failures=0)
    assert statuses(results) == ["succeeded", "failed", "cancelled"]


def test_a_share_of_failures_counts_only_from_twenty_finished_on():
    results, run = virtual(jobs_of(fail_if_bad, ["bad"] * 19 + ["good"] * 200), concurrency=1, max_failures=0.5)
    assert run.stopped == "max_failures"
    assert statuses(results).count("succeeded") == 1  # 19 of 19 did not stop it, 19 of 20 did


def test_a_share_within_the_tolerated_one_does_not_stop():
    values = (["good"] * 9 + ["bad"]) * 10
    results, run = virtual(jobs_of(fail_if_bad, values), concurrency=1, max_failures=0.1)
    assert (statuses(results).count("failed"), run.stopped) == (10, None)


def test_cancelled_jobs_are_no_failures():
    async def main():
        async with gm.BatchExecutor(gm.Policy(concurrency=1, max_failures=0)).start(
            jobs_of(fail_if_bad, ["good"] * 5)
        ) as run:
            await asyncio.sleep(0.5)
            run.cancel("3")
            return [result async for result in run.results()], run.stopped

    results, stopped = run_virtual(main())
    assert statuses(results) == ["succeeded", "succeeded", "succeeded", "cancelled", "succeeded"]
    assert stopped is None


def test_a_time_out_is_a_failure():
    results, run = virtual(
        jobs_of(fail_if_bad, ["good"] * 3), concurrency=1, timeout_s=0.5, retry=ONCE, on_failure="fail_fast"
    )
    assert statuses(results) == ["timed_out", "cancelled", "cancelled"]
    assert run.stopped == "fail_fast"


def test_a_retry_that_waits_when_the_batch_stops_is_cancelled():
    async def work(value):
        if value == "wait":
            raise gm.Transient("later")
        await asyncio.sleep(5)
        raise gm.Permanent("now")

    results, run = virtual(jobs_of(work, ["wait", "fail"]), on_failure="fail_fast", retry=gm.Retry(wait_s=50))
    assert by_id(results)["0"].status is gm.Status.CANCELLED
    assert run.statistics().elapsed_s == pytest.approx(5)


def test_a_share_is_what_it_says_to_the_last_digit_and_cancelled_jobs_do_not_dilute_it():
    values = ["good"] * 71 + ["bad"] * 29
    results, run = virtual(jobs_of(fail_if_bad, values), concurrency=1, max_failures=0.29)
    assert (statuses(results).count("failed"), run.stopped) == (29, None)

    async def main():
        policy = gm.Policy(concurrency=1, max_failures=0.1)
        async with gm.BatchExecutor(policy).start(
            jobs_of(fail_if_bad, ["good"] * 50 + (["bad"] * 4 + ["good"] * 16) * 2)
        ) as run:
            for number in range(50):
                run.cancel(str(number))
            await run.wait()
            return run.stopped

    assert run_virtual(main()) is gm.StopReason.MAX_FAILURES


def test_a_run_that_has_done_everything_was_not_stopped_however_late_it_is_left():
    async def main(**policy):
        async with gm.BatchExecutor(gm.Policy(**policy)).start(jobs_of(fail_if_bad, ["good"] * 3)) as run:
            async for result in run.results():
                await asyncio.sleep(10)
                if result.position == 2:
                    break
            assert run.cancel() is False
        return run.stopped, run.statistics().succeeded

    assert run_virtual(main()) == (None, 3)
    assert run_virtual(main(batch_timeout_s=15)) == (None, 3)
