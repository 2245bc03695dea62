"""What the jobs depend on goes down: nothing is failed by it, nothing is wasted on it, and the run parks if it stays down."""

import asyncio
from collections import Counter

import graphmill as gm
from support.driving import by_id, executor, jobs_of, virtual
from support.virtual_clock import run_virtual


class Server:
    """Down between two times."""

    def __init__(self, down_from, down_until):
        self.down = (down_from, down_until)
        self.calls = []
        self.refused = []

    async def __call__(self, value):
        now = asyncio.get_running_loop().time()
        self.calls.append(now)
        await asyncio.sleep(0.1)
        if self.down[0] <= now < self.down[1]:
            self.refused.append(now)
            raise gm.Unavailable("connection refused")
        await asyncio.sleep(0.9)
        return value


def test_an_outage_costs_no_job_its_attempts_and_only_probes_are_sent_into_it():
    server = Server(5.0, 40.0)
    results, run = virtual(jobs_of(server, range(100)), concurrency=4, retry=gm.Retry(attempts=1))
    assert {result.status for result in results} == {gm.Status.SUCCEEDED}
    assert [now for now in server.refused if now < 6] == [5.0] * 4  # those that ran
    assert len(server.refused) == 4 + 5  # probes after 1, 2, 4, 8 and 15 seconds
    assert run.stopped is None


def test_a_dependency_that_stays_down_parks_the_run_and_fails_nothing():
    server = Server(5.0, 1e9)
    events = []
    results, run = virtual(jobs_of(server, range(100)), concurrency=4, observers=[_listener(events)])
    assert Counter(result.status for result in results) == {gm.Status.SUCCEEDED: 20, gm.Status.PENDING: 80}
    assert run.stopped is gm.StopReason.OUTAGE
    assert run.stopped_because.startswith("connection refused (no probe succeeded for ")
    assert 60 <= run.statistics().elapsed_s - 5 <= 80
    assert run.statistics().pending == 80
    states = [event.state for event in events if isinstance(event, gm.HealthChanged)]
    assert states == ["open", *["half_open", "open"] * (len(states) // 2 - 1), "half_open", "given_up"]


def test_a_run_that_is_stopped_in_an_outage_tells_of_it():
    server = Server(5.0, 1e9)

    async def scenario():
        async with executor(concurrency=4).start(jobs_of(server, range(100), key="own/m")) as run:
            asyncio.get_running_loop().call_later(20, run.drain, 0)
            [result async for result in run.results()]
        return run

    run = run_virtual(scenario())
    assert (run.stopped, run.stopped_because) == ("request", "stopped before it was done; own/m: connection refused")


def test_of_many_outages_three_are_told():
    async def down(value):
        raise gm.Unavailable("no answer")

    async def scenario():
        jobs = [gm.Job(id=str(number), graph=down, key=f"host-{number}") for number in range(5)]
        async with executor(concurrency=5).start(jobs) as run:
            asyncio.get_running_loop().call_later(3, run.drain, 0)
            [result async for result in run.results()]
        return run

    assert run_virtual(scenario()).stopped_because == (
        "stopped before it was done; host-0: no answer; host-1: no answer; host-2: no answer; and 2 more"
    )


def test_one_job_that_always_finds_it_unavailable_parks_the_run_only_when_nothing_else_is_left():
    async def work(value):
        await asyncio.sleep(0.1)
        if value == 0:
            raise gm.Unavailable("this host is down")
        return value

    results, run = virtual(jobs_of(work, range(200)), concurrency=4)
    assert Counter(result.status for result in results) == {gm.Status.SUCCEEDED: 199, gm.Status.PENDING: 1}
    assert run.stopped is gm.StopReason.OUTAGE


def test_a_parked_run_lets_what_runs_end():
    async def work(value):
        if value == "slow":
            await asyncio.sleep(70)
            return "done"
        raise gm.Unavailable("no credit")

    jobs = [gm.Job(id="slow", graph=work, input="slow", key="other"), *jobs_of(work, range(3), key="broke")]
    results, run = virtual(jobs, concurrency=4)
    assert by_id(results)["slow"].output == "done"
    assert run.stopped_because.startswith("broke: no credit")


def test_a_probe_that_is_never_answered_times_out_and_uses_up_no_attempt():
    async def work(value):
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(0.1)
        if now < 1:
            raise gm.Unavailable("connection refused")
        if now < 20:
            await asyncio.sleep(3600)
        return value

    results, _ = virtual(jobs_of(work, range(5)), timeout_s=3, retry=gm.Retry(attempts=1))
    assert {result.status for result in results} == {gm.Status.SUCCEEDED}


def test_the_jobs_of_other_keys_go_on_during_an_outage():
    down, up = Server(0.0, 30.0), Server(1e9, 1e9)
    jobs = [*jobs_of(down, range(5), key="down"), *(gm.Job(id=f"up-{n}", graph=up, key="up") for n in range(20))]
    results, _ = virtual(jobs, concurrency=2)
    assert {result.status for result in results} == {gm.Status.SUCCEEDED}
    assert max(up.calls) < 30 < max(down.calls)


def test_unavailability_and_health_are_seen_in_the_progress():
    async def main():
        async with executor().start(jobs_of(Server(0.0, 1e9), range(3), key="model")) as run:
            await asyncio.sleep(5)
            (lane,) = run.progress().lanes
            assert (lane.key, lane.health, lane.trouble, lane.queued) == ("model", "open", "connection refused", 3)

    run_virtual(main())


def test_a_rule_of_the_user_can_call_any_error_unavailability():
    async def work(_):
        raise ConnectionRefusedError("nobody there")

    def classify(error):
        return "unavailable" if isinstance(error, ConnectionRefusedError) else None

    results, run = virtual(jobs_of(work, range(3)), classify=classify, park_after_s=10)
    assert {result.status for result in results} == {gm.Status.PENDING}
    assert run.stopped is gm.StopReason.OUTAGE


def test_a_million_keys_leave_no_million_lanes():
    async def work(value):
        return value

    async def main():
        async with executor(concurrency=10, window=20).start(
            gm.Job(id=str(n), graph=work, key=f"key {n}") for n in range(3000)
        ) as run:
            most = 0
            async for _ in run.results():
                most = max(most, len(run.progress().lanes))
            assert most <= 150

    asyncio.run(main())


def _listener(events):
    async def listen(event):
        events.append(event)

    return listen
