"""A full machine holds the starts, visibly, and never below one attempt."""

import asyncio
import time
from threading import Event

import pytest

import graphmill as gm
from graphmill.engine.monitor.machine import Machine, Reading
from support.driving import Peak, executor, jobs_of, virtual
from support.virtual_clock import run_virtual


class Scripted:
    """A machine whose memory is as full as a function of the time says."""

    def __init__(self, memory, cpu=lambda _: 0.0):
        self._memory, self._cpu = memory, cpu

    def read(self):
        now = asyncio.get_running_loop().time()
        return Reading(memory=self._memory(now), cpu=self._cpu(now))


class Starts:
    """Notes when its calls start."""

    def __init__(self):
        self.at = []
        self.inside = Peak()

    async def __call__(self, value):
        self.at.append(asyncio.get_running_loop().time())
        with self.inside:
            await asyncio.sleep(1.0)


def between(times, since, until):
    return [time for time in times if since < time < until]


@pytest.mark.parametrize("kind", ["memory", "cpu"])
def test_above_the_high_water_mark_one_attempt_runs_at_a_time_until_below_the_low_one(kind):
    def share(now):
        return 0.9 if 10 <= now < 30 else 0.82 if 30 <= now < 50 else 0.5

    machine = Scripted(**({"memory": share} if kind == "memory" else {"memory": lambda _: 0.0, "cpu": share}))
    work, events = Starts(), []

    async def listen(event):
        events.append(event)

    guards = gm.Guards(**{"memory": None, kind: 0.85})
    _, run = virtual(jobs_of(work, range(800)), machine=machine, guards=guards, concurrency=8, observers=[listen])
    assert len(between(work.at, 1.5, 9.5)) == 64
    assert len(between(work.at, 11.5, 49.5)) == 38  # 0.82 is below the high mark, and not yet below the low one
    assert len(between(work.at, 51.5, 59.5)) == 64
    assert run.statistics().held_s == pytest.approx(40)
    held = [event for event in events if isinstance(event, gm.StartsHeld | gm.StartsReleased)]
    assert [(type(event).__name__, event.at_s) for event in held] == [("StartsHeld", 10.0), ("StartsReleased", 50.0)]
    assert held[0].reason == f"{'CPU' if kind == 'cpu' else kind} 90 % in use, above 85 %"


def test_a_machine_that_is_always_full_still_finishes_the_run():
    work = Starts()
    results, _ = virtual(jobs_of(work, range(5)), machine=Scripted(lambda _: 1.0), concurrency=4)
    assert len(results) == 5
    assert work.inside.highest == 1


def test_readings_are_in_the_statistics_and_the_hold_in_the_progress():
    async def main():
        async with executor(machine=Scripted(lambda _: 0.9, lambda _: 0.4)).start(jobs_of(Starts(), range(5))) as run:
            await asyncio.sleep(0)
            assert run.progress().held == "memory 90 % in use, above 85 %"
            statistics = await run.wait()
            assert (statistics.memory, statistics.cpu) == (0.9, 0.4)

    run_virtual(main())


def test_switched_off_the_guards_hold_nothing():
    work = Starts()
    virtual(
        jobs_of(work, range(50)),
        machine=Scripted(lambda _: 1.0, lambda _: 1.0),
        guards=gm.Guards(memory=None),
        concurrency=5,
    )
    assert work.inside.highest == 5


def test_functions_that_eat_up_the_real_machine_s_memory_are_stopped_before_all_of_them_have_started():
    """Sixty functions, twenty new ones a second, each keep 100 MB until the guard holds the starts."""
    is_held, inside = Event(), Peak()
    high = Machine().read().memory + 0.03

    def watch(event):
        if isinstance(event, gm.StartsHeld):
            is_held.set()

    def source():
        for number in range(60):
            time.sleep(0.05)
            yield number

    def eat(_):
        with inside:
            eaten = bytearray(0 if is_held.is_set() else 100_000_000)  # those after it need no more
            eaten[::4096] = b"x" * len(eaten[::4096])
            is_held.wait(60)
        return len(eaten)

    policy = gm.Policy(concurrency=60, guards=gm.Guards(memory=high))
    report = gm.batch(eat, source(), policy=policy, observers=[watch])
    assert report.statistics.succeeded == 60
    assert inside.highest < 40
    assert report.statistics.held_s > 0
