"""How results come out."""

import asyncio

import pytest

import graphmill as gm
from support.driving import by_id, drive, jobs_of, real, virtual
from support.virtual_clock import run_virtual


async def sleep_and_tell(value):
    await asyncio.sleep(value)
    return value


def test_results_come_as_they_are_completed():
    results, _ = virtual(jobs_of(sleep_and_tell, [5, 1, 3, 2, 4]), concurrency=5)
    assert [result.output for result in results] == [1, 2, 3, 4, 5]


def test_or_in_input_order_failures_included():
    async def work(value):
        await asyncio.sleep(20 - value)
        if value % 7 == 3:
            raise gm.Permanent("no")
        return value

    results, _ = virtual(jobs_of(work, range(20)), concurrency=20, ordered=True)
    assert [result.position for result in results] == list(range(20))
    assert [result.position for result in results if result.is_failure] == [3, 10, 17]


def test_ids_are_kept_apart_as_text_whatever_they_are():
    ids = ["job10", "job2", "", " ", "a\nb", "\u2028", "💡" * 1000, "\x00", "../../etc", "é", "e\u0301", "x" * 100_000]
    jobs = [gm.Job(id=name, graph=sleep_and_tell, input=0) for name in ids]
    results, _ = virtual(jobs, ordered=True)
    assert [result.job_id for result in results] == ids


@pytest.mark.parametrize("value", [None, 0, "", [], {}, False, 0.0, ()])
def test_a_falsy_item_is_an_item_and_a_falsy_output_an_output(value):
    async def echo(given):
        return given

    results, _ = virtual(jobs_of(echo, [value]))
    assert results[0].status is gm.Status.SUCCEEDED
    assert results[0].output == value
    assert type(results[0].input) is type(value)


def test_in_input_order_a_slow_first_item_holds_the_source_back_and_memory_stays_bounded():
    pulled = 0

    async def source():
        nonlocal pulled
        for number in range(1000):
            pulled += 1
            yield gm.Job(id=str(number), graph=sleep_and_tell, input=100 if number == 0 else 0.1)

    async def main():
        async with gm.BatchExecutor(gm.Policy(concurrency=5, window=50)).start(source()) as run:
            results = run.results(ordered=True)
            reading = await anext(results)
            pulled_by_then = pulled
            rest = [result.position async for result in results]
            return reading.position, pulled_by_then, rest

    first, pulled_by_then, rest = run_virtual(main())
    assert (first, pulled_by_then) == (0, 50)
    assert rest == list(range(1, 1000))


def test_in_input_order_a_list_with_priorities_is_ordered_within_the_window_and_does_not_hang():
    jobs = [gm.Job(id=str(number), graph=sleep_and_tell, input=1, priority=number) for number in range(100)]
    results, _ = virtual(jobs, concurrency=2, window=4, ordered=True)
    assert [result.position for result in results] == list(range(100))


def test_input_order_asked_for_too_late_is_refused_only_where_it_can_not_be_had():
    async def main(priority):
        jobs = [
            gm.Job(id=str(number), graph=sleep_and_tell, input=1, priority=priority * number) for number in range(5)
        ]
        async with gm.BatchExecutor().start(jobs) as run:
            await asyncio.sleep(0.1)
            return [result.position async for result in run.results(ordered=True)]

    assert run_virtual(main(priority=0)) == [0, 1, 2, 3, 4]
    with pytest.raises(gm.UsageError, match="before the run has started"):
        run_virtual(main(priority=1))


def test_results_that_gathered_before_they_were_asked_for_are_sorted_in():
    async def main():
        async with gm.BatchExecutor().start(jobs_of(sleep_and_tell, [3, 1, 2])) as run:
            await asyncio.sleep(2.5)
            return [result.output async for result in run.results(ordered=True)]

    assert run_virtual(main()) == [3, 1, 2]


def test_results_are_read_in_one_place():
    async def main():
        async with gm.BatchExecutor().start(jobs_of(sleep_and_tell, [1])) as run:
            run.results()
            with pytest.raises(gm.UsageError, match="already being read"):
                run.results()

    run_virtual(main())


def test_a_result_tells_what_a_person_asks():
    calls = []

    async def work(value):
        calls.append(value)
        await asyncio.sleep(2)
        if len(calls) == 2:
            raise gm.Transient("once")
        return value.upper()

    results, _ = virtual(jobs_of(work, ["a", "b"]), concurrency=1, retry=gm.Retry(wait_s=3, jitter=False))
    second = by_id(results)["1"]
    assert (second.status, second.input, second.output, second.error, second.attempts) == (
        gm.Status.SUCCEEDED,
        "b",
        "B",
        None,
        2,
    )
    assert second.queued_s == pytest.approx(2)
    assert second.duration_s == pytest.approx(2 + 3 + 2)
    assert (second.usage, second.cost_usd, second.metadata) == (None, None, {})


def test_a_run_that_is_waited_for_keeps_nothing_and_gives_its_figures():
    async def main():
        async with gm.BatchExecutor().start(jobs_of(sleep_and_tell, [1] * 25)) as run:
            return await run.wait()

    statistics = run_virtual(main())
    assert (statistics.total, statistics.succeeded, statistics.done) == (25, 25, 25)
    assert statistics.elapsed_s == pytest.approx(3)
    assert statistics.throughput == pytest.approx(25 / 3)


def test_a_consumer_that_raises_ends_the_run_and_the_error_is_its_own():
    async def main():
        async with gm.BatchExecutor().start(jobs_of(sleep_and_tell, [1, 100])) as run:
            async for _ in run.results():
                raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run_virtual(main())


def test_a_cancelled_consumer_cancels_the_run_and_passes_the_cancellation_on():
    ended = []

    async def work(_):
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(asyncio.get_running_loop().time())

    async def main():
        async with asyncio.timeout(7):
            await drive(jobs_of(work, range(3)))

    with pytest.raises(TimeoutError):
        run_virtual(main())
    assert ended == pytest.approx([7, 7, 7])


def test_ten_thousand_failing_items_at_once_are_all_reported():
    async def work(value):
        raise RuntimeError(f"item {value} failed")

    results, run = real(jobs_of(work, range(10_000)), concurrency=512, retry=gm.Retry(attempts=1))
    assert len({result.job_id for result in results}) == 10_000
    assert [(group.message, group.count) for group in run.statistics().errors] == [("item 0 failed", 10_000)]


def test_a_run_that_was_not_entered_says_so_instead_of_hanging():
    run = gm.BatchExecutor().start([])
    with pytest.raises(gm.UsageError, match="enter the run first"):
        run.results()


def test_a_run_is_entered_once():
    async def main():
        run = gm.BatchExecutor().start([])
        async with run:
            await run.wait()
        with pytest.raises(gm.UsageError, match="entered once"):
            await run.__aenter__()

    run_virtual(main())


def test_the_clock_of_a_run_stands_still_after_its_end():
    async def main():
        async with gm.BatchExecutor().start(jobs_of(sleep_and_tell, [3])) as run:
            await run.wait()
            await asyncio.sleep(100)
        return run.statistics().elapsed_s, run.progress().elapsed_s

    assert run_virtual(main()) == (3, 3)
