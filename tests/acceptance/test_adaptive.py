"""Concurrency that adapts, through the executor: found below the ceiling, per key, seen in the progress, overruled by hand."""

import asyncio
from random import Random

import pytest

import graphmill as gm
from support.driving import Peak, executor, jobs_of, virtual
from support.virtual_clock import run_virtual


class Server:
    """Bears so many calls at once; one more is refused at once and told to come back in a second."""

    def __init__(self, limit):
        self.limit = limit
        self.inside = Peak()
        self.calls = 0
        self.refused = 0
        self._random = Random(limit)

    async def __call__(self, _):
        self.calls += 1
        if self.inside.now >= self.limit:
            self.refused += 1
            await asyncio.sleep(0.05)
            raise gm.Throttled(retry_after_s=1)
        with self.inside:
            await asyncio.sleep(self._random.uniform(0.5, 1.5))


def test_what_a_server_can_bear_is_found_without_a_storm_of_refusals():
    server = Server(32)
    results, run = virtual(jobs_of(server, range(10_000)), concurrency=500, adaptive=True)
    assert all(result.is_success for result in results)
    assert run.statistics().elapsed_s < 10_000 / 32 / 0.85
    assert server.refused / server.calls < 0.02


def test_each_key_has_a_limit_of_its_own():
    small, large = Server(8), Server(100)
    jobs = [
        *jobs_of(small, range(1000), key="small"),
        *(gm.Job(id=f"large-{n}", graph=large, key="large") for n in range(10_000)),
    ]

    async def main():
        async with executor(concurrency=500, adaptive=True, window=20_000).start(jobs) as run:
            async for result in run.results():
                if result.job_id == "large-9000":
                    limits = {lane.key: lane for lane in run.progress().lanes}
        return limits

    limits = run_virtual(main())
    assert limits["small"].limit <= 12
    assert 60 <= limits["large"].limit <= 150


def test_the_limit_its_reason_and_the_throttled_share_are_in_the_progress_and_its_changes_are_events():
    events, readings = [], []

    async def listen(event):
        if isinstance(event, gm.ConcurrencyChanged):
            events.append(event)

    async def main():
        async with executor(concurrency=64, adaptive=True, observers=[listen]).start(
            jobs_of(Server(16), range(3000))
        ) as run:
            async for _ in run.results():
                readings.append(run.progress())

    run_virtual(main())
    assert {reading.concurrency == reading.lanes[0].limit for reading in readings} == {True}
    assert max(reading.lanes[0].throttled_share for reading in readings) > 0
    assert any("throttled" in reading.lanes[0].reason for reading in readings)
    assert all(event.key == "" and event.before != event.after and event.reason for event in events)
    assert [event.before for event in events[1:]] == [event.after for event in events[:-1]]


def test_never_more_than_the_concurrency_however_much_the_server_could_bear():
    server = Server(1000)
    virtual(jobs_of(server, range(3000)), concurrency=40, adaptive=True)
    assert server.inside.highest == 40


def test_a_limit_set_by_hand_overrules_it():
    server = Server(1000)

    async def main():
        async with executor(concurrency=64, adaptive=True).start(jobs_of(server, range(3000))) as run:
            run.set_concurrency(7, adaptive=False)
            async for _ in run.results():
                (lane,) = run.progress().lanes
                assert (lane.limit, lane.reason, run.progress().concurrency) == (7, "as set", 7)

    run_virtual(main())
    assert server.inside.highest <= 7


def test_a_new_ceiling_is_kept_to_and_a_limit_that_was_found_stays():
    server = Server(32)

    async def main():
        async with executor(concurrency=64, adaptive=True).start(jobs_of(server, range(6000))) as run:
            limits = []
            async for result in run.results():
                if result.job_id == "2000":
                    run.set_concurrency(200)
                if result.job_id == "4000":
                    run.set_concurrency(9)
                limits.append(run.progress().lanes[0].limit)
        return limits

    limits = run_virtual(main())
    assert max(limits[1000:]) < 64
    assert max(limits[-1000:]) <= 9
    assert server.refused < 200


@pytest.mark.parametrize("adaptive", [None, False])
def test_unless_asked_for_the_concurrency_of_functions_is_as_set(adaptive):
    server = Server(1000)
    virtual(jobs_of(server, range(100)), concurrency=40, adaptive=adaptive)
    assert server.inside.highest == 40


def test_while_the_server_asks_for_quiet_nothing_starts():
    """The gate: a server that refuses everything for a while is not hammered."""
    calls = []

    async def work(_):
        calls.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.05)
        if calls[-1] < 300:
            raise gm.Throttled(retry_after_s=20)

    results, _ = virtual(jobs_of(work, range(200)), concurrency=100, adaptive=True)
    assert all(result.is_success for result in results)
    assert len([at for at in calls if at < 300]) < 200
