"""What can be seen while a run lives."""

import asyncio
import itertools
import logging
import threading

import pytest

import graphmill as gm
from support.driving import jobs_of
from support.virtual_clock import run_virtual


async def nap(value):
    await asyncio.sleep(1)
    return value


async def finish(jobs, policy=None, **hooks):
    async with gm.BatchExecutor(policy, **hooks).start(jobs) as run:
        await run.wait()
    return run


def test_on_result_sees_every_job_with_its_result_while_the_run_lives():
    seen = []

    async def on_result(job, result):
        seen.append((job.input, result.output, asyncio.get_running_loop().time()))

    run_virtual(finish(jobs_of(nap, range(30)), on_result=on_result))
    assert sorted(seen) == [(given, given, pytest.approx(given // 10 + 1)) for given in range(30)]


def test_a_plain_on_result_is_called_off_the_loop_one_at_a_time_and_in_order():
    seen, threads = [], set()

    def on_result(job, result):
        seen.append(result.position)
        threads.add(threading.current_thread().name)

    async def echo(value):
        return value

    run = asyncio.run(finish(jobs_of(echo, range(2000)), gm.Policy(concurrency=1), on_result=on_result))
    assert seen == list(range(2000))
    assert threading.current_thread().name not in threads
    assert run.statistics().succeeded == 2000


def test_an_on_result_that_raises_is_reported_once_and_misses_nothing(caplog):
    seen = []

    async def on_result(job, result):
        seen.append(job.id)
        raise LookupError("the user's own fault")

    with caplog.at_level(logging.ERROR, "graphmill"):
        run = run_virtual(finish(jobs_of(nap, range(20)), on_result=on_result))
    assert len(seen) == 20
    assert (run.statistics().succeeded, run.statistics().hook_errors) == (20, 20)
    assert [record.message for record in caplog.records] == ["on_result raised; it is called for the next one"]


def test_a_slow_on_result_holds_the_source_back():
    pulled, done = 0, 0

    async def source():
        nonlocal pulled
        for number in range(200):
            pulled += 1
            yield gm.Job(id=str(number), graph=nap)

    async def on_result(job, result):
        nonlocal done
        await asyncio.sleep(10)
        assert pulled - done <= 20
        done += 1

    run_virtual(finish(source(), gm.Policy(window=20), on_result=on_result))
    assert done == 200


def test_progress_is_told_during_the_run_and_at_its_end():
    readings = []

    async def on_progress(progress):
        readings.append(progress)

    run_virtual(finish(jobs_of(nap, range(100)), on_progress=on_progress))
    assert len(readings) >= 20
    middle = next(progress for progress in readings if progress.done == 50)
    assert (middle.total, middle.running, middle.queued, middle.failed) == (100, 10, 40, 0)
    assert middle.rate == pytest.approx(10, rel=0.2)
    assert middle.eta_s == pytest.approx(5, rel=0.25)
    assert (readings[-1].done, readings[-1].running, readings[-1].queued) == (100, 0, 0)
    assert [progress.done for progress in readings] == sorted(progress.done for progress in readings)


def test_progress_tells_failed_and_retrying():
    async def work(value):
        raise gm.Transient("again") if value % 2 else gm.Permanent("no")

    async def main():
        policy = gm.Policy(retry=gm.Retry(attempts=2, wait_s=50, jitter=False))
        async with gm.BatchExecutor(policy).start(jobs_of(work, range(10))) as run:
            await asyncio.sleep(10)
            return run.progress()

    progress = run_virtual(main())
    assert (progress.done, progress.failed, progress.retrying, progress.running) == (5, 5, 5, 0)


def test_a_total_that_is_not_known_is_not_guessed_and_can_be_given():
    async def endless():
        for number in itertools.count():
            yield gm.Job(id=str(number), graph=nap)

    async def main(total):
        async with gm.BatchExecutor().start(endless(), total=total) as run:
            await asyncio.sleep(1.25)
            return run.progress()

    assert (run_virtual(main(None)).total, run_virtual(main(None)).eta_s) == (None, None)
    assert (run_virtual(main(500)).total, run_virtual(main(500)).eta_s) == (500, pytest.approx(490 / 8))


def test_a_total_that_was_given_wrong_gives_way_to_the_truth():
    async def main():
        async with gm.BatchExecutor().start(iter(jobs_of(asyncio.sleep, [0] * 20)), total=500) as run:
            return await run.wait()

    assert asyncio.run(main()).total == 20


def test_every_status_of_a_job_can_be_seen_live():
    gate = asyncio.Event()

    async def work(value):
        if value == "retry":
            raise gm.Transient("later")
        await gate.wait()

    jobs = [gm.Job(id=name, graph=work, input=name) for name in ("run", "retry", "again", "wait")]

    async def main():
        async with gm.BatchExecutor(gm.Policy(concurrency=2, retry=gm.Retry(wait_s=60))).start(jobs) as run:
            await asyncio.sleep(1)
            before = [run.status(job.id) for job in jobs]
            gate.set()
            await asyncio.sleep(1)
            after = run.status("run")
            await anext(run.results())
            return before, after, run.status("nobody")

    before, after, nobody = run_virtual(main())
    assert [status.value for status in before] == ["running", "retrying", "running", "pending"]
    assert after is gm.Status.SUCCEEDED  # finished, not yet taken
    assert nobody is None


def test_observers_see_the_events_of_a_run_in_order():
    events = []

    async def observer(event):
        events.append(event)

    calls = []

    async def work(value):
        calls.append(value)
        if len(calls) == 1:
            raise gm.Transient("once")

    policy = gm.Policy(concurrency=1, retry=gm.Retry(wait_s=1, jitter=False))
    run_virtual(finish([gm.Job(id="a", graph=work)], policy, observers=[observer]))
    assert [type(event).__name__ for event in events] == [
        "RunStarted",
        "SourceEnded",
        "AttemptStarted",
        "RetryScheduled",
        "AttemptStarted",
        "JobFinished",
        "RunFinished",
    ]
    with pytest.raises(AttributeError):
        events[0].at_s = 5


def test_an_observer_that_raises_is_reported_once_dropped_and_harms_nothing(caplog):
    good, bad = [], []

    async def bad_observer(event):
        bad.append(event)
        raise RuntimeError("observer's own fault")

    def worse_observer(event):
        raise SystemExit(4)

    async def good_observer(event):
        good.append(event)

    with caplog.at_level(logging.ERROR, "graphmill"):
        run = asyncio.run(
            finish(jobs_of(asyncio.sleep, [0] * 50), observers=[bad_observer, worse_observer, good_observer])
        )
    assert run.statistics().succeeded == 50
    assert len(bad) == 1
    assert len(good) == 50 * 2 + 3
    assert len(caplog.records) == 2
    assert all("not called again" in record.message for record in caplog.records)


def test_a_slow_observer_misses_events_and_the_log_says_how_many(caplog):
    gate = asyncio.Event()
    seen = []

    async def slow(event):
        seen.append(event)
        await gate.wait()

    async def main():
        async with gm.BatchExecutor(gm.Policy(concurrency=50), observers=[slow]).start(
            jobs_of(nap, range(20_000))
        ) as run:
            await run.wait()
            gate.set()
        return run

    with caplog.at_level(logging.WARNING, "graphmill"):
        run = run_virtual(main())
    assert run.statistics().succeeded == 20_000  # it held nothing up
    assert 10_000 <= len(seen) <= 10_010
    assert f"too slow: {2 * 20_000 + 3 - len(seen)} events" in caplog.records[0].message
    assert isinstance(seen[-1], gm.RunFinished)


def test_an_observer_that_hangs_does_not_hold_the_run_s_end():
    async def hang(event):
        await asyncio.Event().wait()

    async def main():
        await finish(jobs_of(nap, [1]), observers=[hang])
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) <= 1 + 5 + 2


def test_statistics_tell_waits_runs_retries_errors_and_the_slowest():
    async def work(value):
        await asyncio.sleep(value)
        if value == 7:
            raise gm.Transient("seven again")
        if value == 9:
            raise gm.Permanent("nine")

    policy = gm.Policy(concurrency=1, retry=gm.Retry(attempts=2, wait_s=1, jitter=False))
    run = run_virtual(finish(jobs_of(work, [1, 2, 7, 9]), policy))
    found = run.statistics()
    assert (found.done, found.succeeded, found.failed, found.retries) == (4, 2, 2, 1)
    assert {(group.kind, group.message, group.count) for group in found.errors} == {
        ("transient", "seven again", 1),
        ("permanent", "nine", 1),
    }
    assert found.slowest[0].job_id == "2"
    assert found.duration_s.highest == pytest.approx(7 + 9 + 7)  # the retry waited for the slot that nine had
    assert found.queued_s.highest == pytest.approx(10)
    assert found.success_rate == 0.5


@pytest.mark.parametrize("concurrency", [100, 1000])
def test_a_quick_observer_misses_nothing_however_busy_the_loop(concurrency):
    async def echo(value):
        return value

    plain, on_loop = [], []

    async def observer(event):
        on_loop.append(event)

    asyncio.run(
        finish(jobs_of(echo, range(20_000)), gm.Policy(concurrency=concurrency), observers=[plain.append, observer])
    )
    assert len(on_loop) == 2 * 20_000 + 3
    assert plain == on_loop


def test_readings_and_controls_may_be_used_from_a_plain_callback():
    seen = []

    def on_result(job, result):
        seen.append((run.progress().done, run.statistics().done, run.status("nobody")))
        if len(seen) == 100:
            run.set_concurrency(3)
            assert run.progress().concurrency == 3
            with pytest.raises(gm.UsageError):
                run.set_concurrency(0)
            assert run.cancel("nobody") is False
            assert run.cancel() is True

    async def main():
        nonlocal run
        asyncio.get_running_loop().set_debug(True)  # complains of calls from other threads
        run = gm.BatchExecutor(on_result=on_result).start(
            gm.Job(id=str(number), graph=asyncio.sleep, input=0) for number in itertools.count()
        )
        async with run:
            await run.wait()

    run = None
    asyncio.run(main())
    assert run.stopped is gm.StopReason.CANCELLED
    assert len(seen) == run.statistics().done


def test_each_result_is_delivered_as_soon_as_on_result_has_seen_it():
    def on_result(job, result):
        if result.position > 0:
            gate.wait(timeout=60)

    gate = threading.Event()

    async def main():
        async with gm.BatchExecutor(gm.Policy(concurrency=1), on_result=on_result).start(
            jobs_of(asyncio.sleep, [0] * 10)
        ) as run:
            results = run.results()
            first = await anext(results)  # although the callback is at the second
            gate.set()
            return [first.position, *[result.position async for result in results]]

    assert asyncio.run(main()) == list(range(10))


def test_hooks_that_hang_do_not_add_up_at_the_end():
    async def hang(*_):
        await asyncio.Event().wait()

    async def main():
        await finish(jobs_of(nap, [1]), observers=[hang, hang, hang, hang])
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) <= 1 + 5 + 2


def test_a_hook_that_raises_a_cancellation_of_its_own_is_a_hook_that_raised(caplog):
    async def on_result(job, result):
        if result.position == 3:
            raise asyncio.CancelledError

    async def observer(event):
        raise asyncio.CancelledError

    with caplog.at_level(logging.ERROR, "graphmill"):
        run = run_virtual(finish(jobs_of(nap, range(10)), on_result=on_result, observers=[observer]))
    assert (run.statistics().succeeded, run.statistics().hook_errors) == (10, 2)
    assert run.statistics().elapsed_s == 1


def test_a_hanging_on_result_does_not_hold_a_run_whose_time_is_up():
    seen = []

    async def on_result(job, result):
        seen.append(job.id)
        await asyncio.Event().wait()

    async def main():
        policy = gm.Policy(batch_timeout_s=10, concurrency=2)
        async with gm.BatchExecutor(policy, on_result=on_result).start(jobs_of(nap, range(50))) as run:
            results = [result.position async for result in run.results()]
        return results, asyncio.get_running_loop().time()

    results, now = run_virtual(main())
    assert len(seen) == 1
    assert sorted(results) == list(range(50))
    assert now <= 10 + 5 + 5 + 5


def test_a_slow_on_result_that_gets_on_sees_everything_though_the_run_was_stopped():
    seen = []

    async def on_result(job, result):
        await asyncio.sleep(4)
        seen.append(job.id)

    async def main():
        policy = gm.Policy(batch_timeout_s=10, concurrency=2, grace_s=0.1)
        async with gm.BatchExecutor(policy, on_result=on_result).start(jobs_of(nap, range(50))) as run:
            return [result.job_id async for result in run.results()]

    assert run_virtual(main()) == seen
    assert len(seen) == 50


def test_a_hanging_on_result_does_not_hold_a_run_whose_time_is_up_after_the_last_job():
    async def hang(*_):
        await asyncio.sleep(1e6)

    async def main():
        run = await finish(jobs_of(nap, [0.5, 0.5]), gm.Policy(batch_timeout_s=2), on_result=hang)
        return run.statistics().succeeded, asyncio.get_running_loop().time()

    succeeded, ended_at = run_virtual(main())
    assert succeeded == 2
    assert ended_at < 60
