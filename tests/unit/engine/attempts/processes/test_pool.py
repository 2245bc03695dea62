import asyncio
import os
import select
import signal
import socket
import sys
import threading
from types import SimpleNamespace

import pytest

from graphmill.core.job import Job
from graphmill.engine.attempts.processes import pool as pool_module
from graphmill.engine.attempts.processes.pool import Processes, resident_bytes
from graphmill.engine.attempts.workers import Workers
from graphmill.engine.jobs.context import AttemptContext
from graphmill.engine.jobs.state import AttemptState
from graphmill.engine.policy import Policy
from graphmill.engine.results.recorder import NullRecorder
from support import worker_functions as functions
from support.remains import HANG_S, is_alive, nothing_left, pids_in, wait_until

MB = 1_000_000


@pytest.fixture(autouse=True)
def _tidy():
    with nothing_left():
        yield


def in_pool(play, **options):
    """Let a coroutine function play with a pool of worker processes, and close it."""

    async def main():
        pool = Processes(asyncio.get_running_loop(), **{"accept": None, "memory_bytes": None, **options})
        try:
            async with asyncio.timeout(HANG_S):
                return await play(pool)
        finally:
            await pool.close(1.0)

    return asyncio.run(main())


class Ends:
    """What an attempt told of its end, each time it did."""

    def __init__(self):
        self.told = []
        self.first = asyncio.get_running_loop().create_future()

    def __call__(self, value, error):
        self.told.append((value, error))
        if not self.first.done():
            self.first.set_result((value, error))


async def outcome(pool, function, item):
    ends = Ends()
    pool.begin(function, item, ends)
    return await ends.first


async def failure(pool, function, item):
    value, error = await outcome(pool, function, item)
    assert value is None
    return error.failure


def await_death(pid):
    """Wait until a worker is dead, without giving the loop a chance to hear of it."""
    wait_until(lambda: not is_alive(pid))


def test_an_idle_worker_is_used_again_and_the_latest_first():
    async def play(pool):
        both = [Ends(), Ends()]
        for ends in both:
            pool.begin(functions.pid_of, 1, ends)
        first = [await ends.first for ends in both]
        return first, await outcome(pool, functions.pid_of, 1), await outcome(pool, functions.pid_of, 1)

    first, third, fourth = in_pool(play)
    assert len(set(first)) == 2
    assert third == fourth
    assert third in first


def test_a_worker_that_died_idle_is_replaced_though_nobody_had_heard_of_it():
    async def play(pool):
        pid, _ = await outcome(pool, functions.pid_of, 1)
        os.kill(pid, signal.SIGKILL)
        await_death(pid)
        return pid, await outcome(pool, functions.pid_of, 1)

    pid, (value, error) = in_pool(play)
    assert error is None
    assert value != pid


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere a socket does not tell that the other side left something unread"
)
@pytest.mark.parametrize("length", [1, 10 * MB])
def test_a_worker_that_died_before_it_had_read_its_request_is_replaced(length):
    async def play(pool):
        pid, _ = await outcome(pool, functions.pid_of, 1)
        os.kill(pid, signal.SIGSTOP)
        ends = Ends()
        pool.begin(functions.size, b"x" * length, ends)
        os.kill(pid, signal.SIGKILL)
        return await ends.first

    assert in_pool(play) == (length, None)


def test_a_worker_that_dies_before_it_can_do_anything_is_a_crash_and_no_hang(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    failed = in_pool(lambda pool: failure(pool, functions.same, 1))
    assert (failed.kind, failed.message) == ("crash", "its worker process died: exited with status 1")


def test_a_worker_that_can_not_be_started_is_a_transient_failure(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    failed = in_pool(lambda pool: failure(pool, functions.same, 1))
    assert failed.kind == "transient"
    assert failed.message.startswith("a worker process could not be started: FileNotFoundError: ")


@pytest.mark.parametrize(
    "error",
    [OSError(24, "Too many open files"), RuntimeError("can't start new thread")],
    ids=["descriptors", "threads"],
)
def test_a_system_that_gives_no_more_is_a_transient_failure_told_after_the_beginning(monkeypatch, error):
    def refuse(*_, **__):
        raise error

    async def play(pool):
        monkeypatch.setattr(
            "graphmill.engine.attempts.threads.Thread.start"
            if isinstance(error, RuntimeError)
            else "socket.socketpair",
            refuse,
        )
        ends = Ends()
        pool.begin(functions.same, 1, ends)
        assert ends.told == []
        _, carried = await ends.first
        monkeypatch.undo()
        return carried.failure

    failed = in_pool(play)
    assert failed.kind == "transient"
    assert failed.message == f"a worker process could not be started: {type(error).__name__}: {error}"


@pytest.mark.parametrize("is_heard", [True, False], ids=["by its answer", "by its death"])
def test_what_a_worker_said_before_it_died_is_the_result(is_heard):
    async def play(pool):
        ends = Ends()
        pool.begin(functions.pid_of, 1, ends)
        (worker,) = pool._workers
        assert select.select([worker._socket], [], [], HANG_S)[0]
        os.kill(worker.pid, signal.SIGKILL)
        await_death(worker.pid)
        if not is_heard:
            pool.loop.remove_reader(worker._socket)
        return worker.pid, await ends.first

    pid, outcome = in_pool(play)
    assert outcome == (pid, None)


def test_an_interrupted_attempt_ends_once_and_at_once(tmp_path):
    async def play(pool):
        ends = Ends()
        attempt = pool.begin(functions.spin, str(tmp_path), ends)
        (pid,) = await asyncio.to_thread(pids_in, tmp_path)
        attempt.interrupt()
        attempt.interrupt()
        assert len(ends.told) == 1
        assert await outcome(pool, functions.same, 2) == (2, None)
        return ends, pid

    ends, pid = in_pool(play)
    ((value, error),) = ends.told
    assert value is None
    assert isinstance(error, asyncio.CancelledError)
    assert not is_alive(pid)


def test_an_attempt_that_was_refused_can_still_be_interrupted_and_ends_once():
    async def play(pool):
        ends = Ends()
        pool.begin(lambda item: item, 1, ends).interrupt()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return ends.told

    ((_, error),) = in_pool(play)
    assert isinstance(error, asyncio.CancelledError)


def test_a_child_killed_while_it_is_being_born_does_not_live(monkeypatch):
    born, may_go, pids = threading.Event(), threading.Event(), []

    class SlowPopen(pool_module.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            pids.append(self.pid)
            born.set()
            assert may_go.wait(HANG_S)

    monkeypatch.setattr(pool_module, "Popen", SlowPopen)

    async def play(pool):
        ends = Ends()
        attempt = pool.begin(functions.spin, "nowhere", ends)
        await asyncio.to_thread(born.wait, HANG_S)
        attempt.interrupt()
        may_go.set()

    in_pool(play)
    assert len(pids) == 1
    assert not is_alive(pids[0])


def test_a_child_killed_before_its_birth_is_never_born(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("it was born")

    here, there = socket.socket(), socket.socket()
    monkeypatch.setattr(pool_module, "Popen", refuse)
    child = pool_module.ChildProcess(["never"], there)
    child.kill()
    assert child.run() == -signal.SIGKILL
    assert there.fileno() == -1
    here.close()


def test_two_hundred_kills_leave_nothing_behind():
    async def play(pool):
        for turn in range(20):
            ends = [Ends() for _ in range(10)]
            attempts = [pool.begin(functions.same, 1, end) for end in ends]
            if (
                turn % 2
            ):  # in every other turn they are killed when they are born, in the others before or while they are
                await asyncio.to_thread(
                    wait_until, lambda: all(worker.pid for worker in tuple(pool._workers) if worker.attempt)
                )
            for attempt in attempts:
                attempt.interrupt()
            for end in ends:
                await end.first

    in_pool(play)


@pytest.mark.parametrize("hog", [functions.swell, functions.let_child_swell], ids=lambda hog: hog.__name__)
def test_a_worker_that_holds_too_much_memory_is_killed_with_its_children_counted_in(hog):
    async def play(pool):
        failed = await failure(pool, hog, 400 * MB)
        return failed, await outcome(pool, functions.same, 1)

    failed, bystander = in_pool(play, memory_bytes=250 * MB)
    assert (failed.kind, failed.message) == ("crash", "its worker process used more than 250 MB and was killed")
    assert bystander == (1, None)


def test_a_worker_that_grew_too_large_is_replaced_at_no_cost_of_the_next_attempt():
    async def play(pool):
        value, _ = await outcome(pool, functions.pid_of, 1)
        (worker,) = pool._workers
        ends = Ends()
        pool.begin(functions.pid_of, 1, ends)
        worker.exceed_memory(object(), "too much")
        return value, await ends.first, await outcome(pool, functions.pid_of, 1)

    before, (during, _), (after, _) = in_pool(play)
    assert before == during
    assert after != before


def test_a_group_that_is_gone_weighs_nothing():
    import psutil  # noqa: PLC0415

    assert resident_bytes(psutil, {2**22 + 1}) == {}
    assert resident_bytes(psutil, {os.getpgrp()})[os.getpgrp()] > MB


def test_closing_while_attempts_run_kills_them_and_tells_each_its_end(tmp_path):
    ends = []

    async def play(pool):
        ends.append(Ends())
        pool.begin(functions.spin, str(tmp_path), ends[0])
        return await asyncio.to_thread(pids_in, tmp_path)

    (pid,) = in_pool(play)
    assert len(ends[0].told) == 1
    assert not is_alive(pid)


def test_a_loop_torn_down_without_a_close_in_full_leaves_no_process():
    async def main():
        pool = Processes(asyncio.get_running_loop(), accept=None, memory_bytes=None)
        pid, _ = await outcome(pool, functions.pid_of, 1)
        closing = asyncio.create_task(pool.close(HANG_S))  # noqa: TID251
        await asyncio.sleep(0)
        closing.cancel()
        return pid

    pid = asyncio.run(main())
    wait_until(lambda: not is_alive(pid))
    wait_until(lambda: not any(thread.name.startswith("graphmill-worker") for thread in threading.enumerate()))


@pytest.mark.parametrize("isolation", [None, "process"])
@pytest.mark.parametrize(
    "function", [functions.same, functions.same_later, functions.promised], ids=lambda function: function.__name__
)
def test_every_output_is_shown_to_accept_where_it_was_made(isolation, function):
    async def main():
        recorder = NullRecorder(None, total=None, accept=functions.refused)
        workers = Workers(Policy(isolation=isolation), recorder, abandoned=lambda: None)
        ends = Ends()
        step = SimpleNamespace(job=Job(id="1", graph=function))
        context = AttemptContext(None, AttemptState(step, 1))
        workers.begin(function, 402, lambda _attempt, value, error: ends(value, error), context=context)
        try:
            async with asyncio.timeout(HANG_S):
                return await ends.first
        finally:
            await workers.close()

    value, error = asyncio.run(main())
    assert value is None
    raised = error if isolation is None else error.exception()
    assert (type(raised), raised.code) == (functions.Refused, 402)
