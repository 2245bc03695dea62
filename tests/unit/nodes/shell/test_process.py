"""The processes of commands: how they end, and that nothing is left of them."""

import asyncio
import os
import signal
import threading
import time
from subprocess import Popen

import pytest

from graphmill.nodes.shell import process as process_file
from graphmill.nodes.shell.process import REAPER, GroupReaper, ShellCommand, run_command
from support.remains import HANG_S, is_alive, nothing_left, pids_in, wait_until


@pytest.fixture(autouse=True)
def watched():
    """Let nothing be left but the watch itself."""
    REAPER.start()
    asyncio.run(asyncio.sleep(0))
    with nothing_left():
        yield


def command_of(command, folder=None, stdin=None):
    return ShellCommand(
        words=["/bin/sh", "-c", command], environment=dict(os.environb), folder=folder and str(folder), stdin=stdin
    )


def run(command, folder=None, stdin=None):
    return asyncio.run(run_command(command_of(command, folder, stdin)))


async def cancelled_when(condition, work):
    """Start something, cancel it once a condition holds; give the seconds that it took to end."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        await asyncio.to_thread(wait_until, condition)
        began = time.monotonic()
        task.cancel()
    assert task.cancelled()
    return time.monotonic() - began


@pytest.mark.parametrize("redirection", ["", ">/dev/null 2>&1"])
def test_a_background_child_ends_with_its_command(redirection, tmp_path):
    began = time.monotonic()
    done = run(
        f"(trap '' TERM HUP; echo $$ > x.tmp; exec sleep 600) {redirection} & echo $! > a.tmp; mv a.tmp a.pid; echo done",
        tmp_path,
    )
    assert (done.status, done.stdout.text()) == (0, "done\n")
    assert time.monotonic() - began < HANG_S
    (pid,) = pids_in(tmp_path)
    wait_until(lambda: not is_alive(pid))


def test_a_child_that_has_left_the_group_and_holds_the_pipes_does_not_hang_the_command(tmp_path):
    done = run(
        "setsid sh -c 'echo $$ > a.tmp; mv a.tmp a.pid; exec sleep 600' & while ! [ -f a.pid ]; do :; done; echo done",
        tmp_path,
    )
    assert done.stdout.text() == "done\n"
    (pid,) = pids_in(tmp_path)
    os.kill(pid, 9)


def test_what_was_written_last_is_read():
    for _ in range(50):
        assert run("head -c 60000 /dev/zero").stdout.text() == "\0" * 60_000


def test_cancelled_it_gets_term_and_may_tidy_up(tmp_path):
    command = "trap 'touch tidied; exit 0' TERM; touch ready; while :; do sleep 0.01; done"
    asyncio.run(cancelled_when((tmp_path / "ready").exists, run_command(command_of(command, tmp_path))))
    assert (tmp_path / "tidied").exists()


def test_what_ignores_term_is_killed_with_all_that_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr(process_file, "PATIENCE_S", 0.2)
    stubborn = "trap '' TERM INT HUP; echo $$ > $1.tmp; mv $1.tmp $1.pid; while :; do sleep 0.01; done"
    command = f"for i in 1 2 3 4 5; do sh -c '{stubborn}' sh $i & done; {stubborn.replace('$1', '0')}"
    took = asyncio.run(
        cancelled_when(lambda: len(list(tmp_path.glob("*.pid"))) == 6, run_command(command_of(command, tmp_path)))
    )
    assert 0.2 <= took < HANG_S
    wait_until(lambda: not any(map(is_alive, pids_in(tmp_path, 6))))


def test_cancelled_twice_it_is_killed_at_once(tmp_path):
    async def twice():
        async with asyncio.TaskGroup() as group:
            task = group.create_task(run_command(command_of(command, tmp_path)))
            await asyncio.to_thread(pids_in, tmp_path)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()

    command = "trap '' TERM; echo $$ > a.tmp; mv a.tmp a.pid; while :; do sleep 0.01; done"
    asyncio.run(twice())
    (pid,) = pids_in(tmp_path)
    assert not is_alive(pid)


def test_a_command_whose_loop_is_gone_is_killed(tmp_path):
    loop = asyncio.new_event_loop()
    work = run_command(command_of("echo $$ > a.tmp; mv a.tmp a.pid; exec sleep 600", tmp_path))
    waiting = loop.run_until_complete(_begun(work))
    (pid,) = pids_in(tmp_path)
    loop.close()
    waiting.close()
    wait_until(lambda: not is_alive(pid))


async def _begun(work):
    """Make the first step of a coroutine, and give it back."""
    work.send(None)
    return work


def test_two_hundred_at_once_leave_nothing():
    async def all_of_them():
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(run_command(command_of(f"cat; echo {number}", stdin=b"x" * 100_000)))
                for number in range(200)
            ]
        return [task.result().stdout.text() for task in tasks]

    assert asyncio.run(all_of_them()) == ["x" * 100_000 + f"{number}\n" for number in range(200)]


def test_gigabytes_of_output_take_little_memory():
    done = run("head -c 2000000000 /dev/zero")
    assert len(done.stdout.text()) < 1_000_200
    assert "1,999,000,000 more bytes" in done.stdout.text()


def test_without_pidfd_a_thread_waits(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert run("echo a; exit 4").status == 4
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("graphmill-shell")])


def test_a_folder_that_is_gone_leaves_nothing_open(tmp_path):
    with pytest.raises(FileNotFoundError):
        run("true", tmp_path / "gone")


def test_a_watch_that_was_killed_is_begun_again():
    reaper = GroupReaper()
    reaper.start()
    reaper._shell.kill()
    reaper._shell.wait()
    with Popen(["sleep", "600"], start_new_session=True) as left:
        reaper.add(left.pid)
        reaper.close()
        assert left.wait(HANG_S) == -signal.SIGKILL


def test_what_is_struck_out_is_spared():
    reaper = GroupReaper()
    with (
        Popen(["sleep", "600"], start_new_session=True) as spared,
        Popen(["sleep", "600"], start_new_session=True) as left,
    ):
        reaper.remove(reaper.add(spared.pid))
        reaper.add(left.pid)
        reaper.add(left.pid)
        reaper.close()
        assert left.wait(HANG_S) == -signal.SIGKILL
        assert spared.poll() is None
        spared.kill()
