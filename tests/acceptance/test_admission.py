"""What comes in, when, and in which order it starts."""

import asyncio
import collections
import itertools
import threading

import pytest

import graphmill as gm
from support.driving import Peak, by_id, jobs_of, real, virtual
from support.virtual_clock import run_virtual


async def echo(value):
    return value


async def nap(value):
    await asyncio.sleep(1)
    return value


@pytest.mark.parametrize("concurrency", [1, 2, 7, 50])
def test_never_more_attempts_at_once_than_the_concurrency_and_all_of_it_is_used(concurrency):
    peak = Peak()

    async def work(_):
        with peak:
            await asyncio.sleep(1)

    results, _ = virtual(jobs_of(work, range(100)), concurrency=concurrency)
    assert len(results) == 100
    assert peak.highest == concurrency


def test_plain_functions_are_held_to_the_concurrency_too():
    peak, lock = Peak(), threading.Lock()
    full = threading.Barrier(4)

    def work(_):
        with lock:
            peak.__enter__()
        full.wait(timeout=60)  # passes only when four are inside at once
        with lock:
            peak.__exit__()

    results, _ = real(jobs_of(work, range(40)), concurrency=4)
    assert all(result.is_success for result in results)
    assert peak.highest == 4


def test_a_raised_concurrency_takes_effect_while_running():
    peak = Peak()

    async def work(_):
        with peak:
            await asyncio.sleep(1)

    async def main():
        async with gm.BatchExecutor(gm.Policy(concurrency=2)).start(jobs_of(work, range(40))) as run:
            seen = []
            async for _ in run.results():
                seen.append(peak.highest)
                if len(seen) == 4:
                    run.set_concurrency(9)
            return seen

    seen = run_virtual(main())
    assert set(seen[:4]) == {2}
    assert seen[-1] == 9


def test_a_lowered_concurrency_lets_what_runs_end_and_starts_less():
    peak = Peak()
    starts = []

    async def work(_):
        with peak:
            starts.append(peak.now)
            await asyncio.sleep(1)

    async def main():
        async with gm.BatchExecutor(gm.Policy(concurrency=8)).start(jobs_of(work, range(40))) as run:
            async for result in run.results():
                if result.job_id == "0":
                    run.set_concurrency(3)
            return run.statistics()

    assert run_virtual(main()).cancelled == 0
    assert max(starts[:8]) == 8
    assert max(starts[20:]) == 3


@pytest.mark.parametrize("value", [0, -3, True, 2.5, "4"])
def test_a_concurrency_that_can_not_be_meant_is_refused_while_running_and_changes_nothing(value):
    async def main():
        async with gm.BatchExecutor(gm.Policy(concurrency=2)).start(jobs_of(echo, range(5))) as run:
            with pytest.raises(gm.UsageError, match="concurrency must be an integer"):
                run.set_concurrency(value)
            return await run.wait()

    assert run_virtual(main()).succeeded == 5


def test_the_window_bounds_what_is_pulled_from_a_source_before_its_results_are_taken():
    pulled = 0

    async def source():
        nonlocal pulled
        for number in range(10_000):
            pulled += 1
            yield gm.Job(id=str(number), graph=echo, input=number)

    async def main():
        ahead = []
        async with gm.BatchExecutor(gm.Policy(concurrency=4, window=20)).start(source()) as run:
            taken = 0
            async for _ in run.results():
                await asyncio.sleep(1)  # a slow consumer: everything else has had its time
                ahead.append(pulled - taken)
                taken += 1
                if taken == 200:
                    return ahead
        raise AssertionError

    assert max(run_virtual(main())) == 20


def test_a_consumer_holds_back_a_plain_iterator_too():
    pulled = itertools.count()
    last = -1

    def source():
        nonlocal last
        while True:
            last = next(pulled)
            yield gm.Job(id=str(last), graph=echo)

    async def main():
        async with gm.BatchExecutor(gm.Policy(concurrency=2, window=10)).start(source()) as run:
            taken = 0
            async for _ in run.results():
                assert last - taken <= 10
                taken += 1
                if taken == 500:
                    return

    asyncio.run(main())


def test_a_plain_iterator_that_blocks_does_not_stall_the_loop():
    gate = threading.Event()

    def source():
        yield gm.Job(id="a", graph=echo)
        gate.wait(timeout=60)
        yield gm.Job(id="b", graph=echo)

    async def main():
        async with gm.BatchExecutor().start(source()) as run:
            results = run.results()
            first = await anext(results)  # is there although the source blocks
            assert run.progress().done == 1
            gate.set()
            second = await anext(results)
            return first.job_id, second.job_id

    assert asyncio.run(main()) == ("a", "b")


def test_a_plain_iterator_is_used_by_one_thread_only_and_is_closed_there():
    used = set()
    closed = []

    def source():
        try:
            for number in itertools.count():
                used.add(threading.get_ident())
                yield gm.Job(id=str(number), graph=echo)
        finally:
            closed.append(threading.get_ident())

    async def main():
        async with gm.BatchExecutor(gm.Policy(concurrency=2, window=4)).start(source()) as run:
            async for result in run.results():
                if result.position == 100:
                    break

    asyncio.run(main())
    assert len(used) == 1
    assert threading.get_ident() not in used
    assert closed == list(used)


def test_an_async_source_that_is_left_early_is_closed():
    closed = []

    async def source():
        try:
            for number in itertools.count():
                yield gm.Job(id=str(number), graph=echo)
        finally:
            closed.append(True)

    async def main():
        async with gm.BatchExecutor().start(source()) as run:
            async for _ in run.results():
                break
        return list(closed)  # before the loop's own shutdown could close it

    assert run_virtual(main()) == [True]


def test_a_source_slower_than_the_workers_gives_each_result_as_its_item_comes():
    async def source():
        for number in range(5):
            await asyncio.sleep(10)
            yield gm.Job(id=str(number), graph=nap)

    async def main():
        loop = asyncio.get_running_loop()
        async with gm.BatchExecutor().start(source()) as run:
            return [(result.job_id, loop.time()) async for result in run.results()]

    assert run_virtual(main()) == [(str(number), pytest.approx(10 * (number + 1) + 1)) for number in range(5)]


def test_a_list_is_started_by_priority_over_its_whole_length_however_small_the_window():
    order = []

    async def work(value):
        order.append(value)

    jobs = [gm.Job(id=str(number), graph=work, input=number, priority=number % 3) for number in range(300)]
    virtual(jobs, concurrency=1, window=2)
    assert order == sorted(range(300), key=lambda number: (-(number % 3), number))


def test_a_stream_is_started_by_priority_within_its_window():
    order = []

    async def work(value):
        order.append(value)
        await asyncio.sleep(1)

    async def source():
        for number in range(30):
            yield gm.Job(id=str(number), graph=work, input=number, priority=int(number >= 25))

    virtual(source(), concurrency=1, window=10)
    assert order[0] == 0  # the first of the window, all of it of one priority
    assert order.index(25) < 20  # overtakes what was admitted before it
    assert sorted(order) == list(range(30))


def test_a_low_priority_ages_and_is_not_starved_by_a_stream_of_higher_ones():
    finished = []

    async def work(value):
        await asyncio.sleep(5)
        finished.append(value)

    async def source():
        yield gm.Job(id="low", graph=work, input="low", priority=0)
        for number in range(100):
            yield gm.Job(id=str(number), graph=work, input=number, priority=3)

    virtual(source(), concurrency=1, window=10)
    assert 25 <= finished.index("low") <= 50  # after three minutes' worth of higher ones, long before their end


def test_jobs_of_different_graphs_async_and_plain_go_together():
    def plain(value):
        return value * 2

    results, _ = real(
        [gm.Job(id="a", graph=echo, input=1), gm.Job(id="b", graph=plain, input=1), gm.Job(id="c", graph=echo, input=3)]
    )
    assert {result.job_id: result.output for result in results} == {"a": 1, "b": 2, "c": 3}


def test_two_unfinished_jobs_with_one_id_are_refused_with_both_positions_and_the_rest_is_kept():
    jobs = [gm.Job(id=name, graph=echo) for name in ("a", "b", "c", "b", "d")]

    async def main():
        done = []
        async with gm.BatchExecutor().start(jobs) as run:
            with pytest.raises(gm.DuplicateIdError, match="'b' at position 3 is already used at position 1"):
                async for result in run.results():
                    done.append(result.job_id)
        return sorted(done)

    assert run_virtual(main()) == ["a", "b", "c"]


@pytest.mark.parametrize("source", ["plain", "async"])
def test_a_source_that_raises_half_way_keeps_what_was_done_and_names_the_position(source):
    def plain():
        for number in range(7):
            yield gm.Job(id=str(number), graph=echo)
        raise OSError("the disk is gone")

    async def over_async():
        for job in plain():
            yield job

    async def main():
        done = []
        async with gm.BatchExecutor(gm.Policy(concurrency=2)).start(
            plain() if source == "plain" else over_async()
        ) as run:
            with pytest.raises(gm.SourceError, match="failed after 7 items: OSError: the disk is gone") as caught:
                async for result in run.results():
                    done.append(result.status)
        return done, caught.value

    done, error = asyncio.run(main())
    assert done == [gm.Status.SUCCEEDED] * 7
    assert error.position == 7
    assert isinstance(error.__cause__, OSError)


def test_something_that_is_no_job_ends_the_source_with_its_position():
    async def main():
        async with gm.BatchExecutor().start([gm.Job(id="a", graph=echo), {"id": "b"}]) as run:
            with pytest.raises(gm.SourceError, match=r"after 1 items: expected a Job, got dict"):
                await run.wait()
            return run.statistics()

    assert run_virtual(main()).succeeded == 1


@pytest.mark.parametrize("jobs", ["items.jsonl", b"x", {"a": 1}, 7, None, echo])
def test_what_is_no_series_is_refused_at_once(jobs):
    with pytest.raises(gm.UsageError, match="items must be"):
        gm.BatchExecutor().start(jobs)


def test_an_old_style_sequence_is_a_series():
    class Sequence:
        def __getitem__(self, index):
            if index == 3:
                raise IndexError
            return gm.Job(id=str(index), graph=echo)

    assert len(real(Sequence())[0]) == 3


def test_an_infinite_source_is_stopped_by_cancel():
    async def main():
        source = (gm.Job(id=str(number), graph=echo) for number in itertools.count())
        async with gm.BatchExecutor().start(source) as run:
            count = 0
            async for _ in run.results():
                count += 1
                if count == 2500:
                    assert run.cancel() is True
                    assert run.cancel() is False
            return run

    run = asyncio.run(main())
    assert run.stopped == "cancelled"
    assert 2500 <= run.statistics().done <= 3500


def test_a_hundred_thousand_jobs_each_come_back_once():
    async def main():
        seen = bytearray(100_000)
        jobs = (gm.Job(id=str(number), graph=echo, input=number) for number in range(100_000))
        async with gm.BatchExecutor(gm.Policy(concurrency=100)).start(jobs) as run:
            async for result in run.results():
                seen[result.output] += 1
        return seen

    assert asyncio.run(main()) == b"\x01" * 100_000


def test_an_empty_batch_ends_at_once():
    for empty in ([], iter(()), (job for job in ())):
        results, run = real(empty)
        assert results == []
        assert run.statistics().done == 0
        assert run.stopped is None


def test_one_job_is_a_batch():
    results, run = virtual(jobs_of(nap, ["x"]))
    assert by_id(results)["0"].output == "x"
    assert run.statistics().elapsed_s == pytest.approx(1)


def test_a_retry_overtakes_work_that_has_not_started():
    order = []

    async def work(value):
        order.append(value)
        await asyncio.sleep(1)
        if value == 0 and order.count(0) == 1:
            raise gm.Transient("once")

    virtual(jobs_of(work, range(50)), concurrency=1, retry=gm.Retry(wait_s=0.5, jitter=False))
    assert order[:3] == [0, 1, 0]


def test_a_run_whose_batch_lies_in_the_window_can_be_left_and_cancels_what_is_left():
    cancelled = []

    async def work(_):
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main():
        loop = asyncio.get_running_loop()
        async with gm.BatchExecutor(gm.Policy(concurrency=3)).start(jobs_of(work, range(9))):
            await asyncio.sleep(1)
        return loop.time()

    assert run_virtual(main()) == pytest.approx(1)
    assert len(cancelled) == 3


def test_slots_do_not_stay_empty_while_most_of_the_window_waits_for_retries():
    async def work(value):
        if value < 760 and not seen[value]:
            seen[value] = True
            raise gm.Throttled("later", retry_after_s=600)

    seen = [False] * 760

    async def source():
        for number in range(5000):
            yield gm.Job(id=str(number), graph=work, input=number)

    async def read():
        async with gm.BatchExecutor().start(source()) as run:
            done = 0
            async for _ in run.results():
                done += 1
                if run.progress().elapsed_s < 300:
                    early = done
            return early

    assert run_virtual(read()) == 5000 - 760


def test_a_container_changed_while_it_is_read_is_a_source_that_failed():
    jobs = collections.deque(jobs_of(nap, range(1500)))

    async def main():
        async with gm.BatchExecutor().start(jobs) as run:
            await asyncio.sleep(0.5)
            jobs.append(gm.Job(id="late", graph=nap))
            with pytest.raises(gm.SourceError, match="deque mutated"):
                await run.wait()
            return run.statistics()

    assert run_virtual(main()).succeeded == 1000


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_source_whose_error_can_not_be_read_has_failed_all_the_same(is_plain):
    class Mute(Exception):  # noqa: N818
        def __str__(self):
            raise RuntimeError("no message")

    def plain():
        yield gm.Job(id="a", graph=echo)
        raise Mute

    async def on_loop():
        yield gm.Job(id="a", graph=echo)
        raise Mute

    with pytest.raises(gm.SourceError, match=r"after 1 items: Mute \(its message could not be rendered\)"):
        real(plain() if is_plain else on_loop())


@pytest.mark.parametrize("close", ["hangs", "raises"])
def test_a_source_that_does_not_close_in_order_has_given_all_it_had(close):
    class Source:
        def __init__(self):
            self._left = 3

        def __aiter__(self):
            return self

        async def __anext__(self):
            self._left -= 1
            if self._left < 0:
                raise StopAsyncIteration
            return gm.Job(id=str(self._left), graph=echo)

        async def aclose(self):
            if close == "raises":
                raise RuntimeError("no")
            await asyncio.Event().wait()

    results, run = virtual(Source())
    assert len(results) == 3
    assert run.statistics().elapsed_s == 0
