"""How the command ends when it is told to: real processes, real signals, real terminals."""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from tempfile import mkdtemp

import psutil
import pytest

from support.command import COMMAND, HANG_S, Command, answered, environment, members, rows, write_items

CANCELS_WITHIN_S = 5 * 2.0
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
TEMPORARY = ".graphmill-*.tmp"

FUNCTIONS = """
import asyncio, logging, pathlib, time

def mark(name):
    pathlib.Path(name).touch()

async def gate(value):
    mark(f"started-{value}")
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.01)
    return value

def plain_gate(value):
    mark(f"started-{value}")
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    return value

async def hang(value):
    if value:
        mark(f"started-{value}")
        await asyncio.Event().wait()

def stuck(value):
    if value:
        mark(f"started-{value}")
        time.sleep(3600)

async def stubborn(value):
    if value:
        mark(f"started-{value}")
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass

async def deaf_once_cancelled(value):
    mark(f"started-{value}")
    try:
        await asyncio.Event().wait()
    finally:
        mark("deaf")
        time.sleep(3600)

async def deaf(value):
    mark(f"started-{value}")
    time.sleep(3600)

async def chatty(value):
    for _ in range(20):
        print("x" * 10_000)
        logging.warning("y" * 10_000)
    return await gate(value)
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    for name in re.findall(r"def (\w+)\(value", FUNCTIONS):
        node = f'- {{id: n, type: python, params: {{function: "functions:{name}", inputs: {{value: "${{value}}"}}}}}}'
        (tmp_path / f"{name}.yaml").write_text(f"inputs: {{value: {{required: true}}}}\nnodes:\n  {node}\n")
    write_items(tmp_path, [{"value": number} for number in range(50)])
    return tmp_path


def batch(function, *more, output="out.jsonl"):
    return [
        "batch",
        f"{function}.yaml",
        "-s",
        "items.jsonl",
        "-c",
        3,
        "--no-journal",
        *(["-o", output] if output else []),
        *more,
    ]


def statuses(project):
    """How often each status is in the rows of a run that was ended early."""
    found = [row["status"] for row in rows(project / "out.partial.jsonl")]
    return {status: found.count(status) for status in found}


def assert_drained(project, *, succeeded=3):
    found = statuses(project)
    assert found.get("succeeded", 0) == succeeded
    assert found.keys() <= {"succeeded", "pending"}
    assert sum(found.values()) <= 50
    assert not (project / "out.jsonl").exists()
    assert not list(project.glob(TEMPORARY))


def open_gate(project):
    (project / "go").touch()


@contextmanager
def unread(make):
    """The writing end of a pipe or a terminal that nobody reads and that takes no more."""
    reader, writer = make()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x")
    os.set_blocking(writer, True)
    try:
        yield writer
    finally:
        os.close(reader)
        os.close(writer)


@contextmanager
def deserted_pipe():
    """The end of a pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield writer
    finally:
        os.close(writer)


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("function", ["gate", "plain_gate"])
def test_the_first_signal_lets_what_runs_end_by_itself_and_writes_it(project, function, number, code):
    with Command(project, *batch(function)) as command:
        command.until_file("started-*", 3)
        command.send(number)
        command.until_said(f"{number.name}: starting nothing new; running attempts have 25 s to finish")
        open_gate(project)
        assert command.wait(within_s=20) == code, command.err  # it does not wait until the 25 s are over
    assert_drained(project)
    by = {"SIGINT": "Ctrl-C", "SIGHUP": "the end of its terminal (SIGHUP)"}.get(number.name, number.name)
    assert f" · paused: stopped by {by} before it was done · " in command.out
    told = re.match(r"3/50 items succeeded, (\d+) pending · ", command.out)
    assert int(told[1]) == 47
    assert 0 < statuses(project)["pending"] <= 47
    assert "did not finish; its results are in out.partial.jsonl" in command.err
    assert "Traceback" not in command.err


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("function", ["hang", "stuck", "stubborn"])
def test_the_second_signal_cancels_what_runs_and_writes_what_is_done(project, function, number, code):
    with Command(project, *batch(function)) as command:
        command.until_file("started-*", 3)
        command.send(number)
        command.until_said("repeat to cancel")
        command.send_once_more(signal.SIGINT)
        assert command.wait(CANCELS_WITHIN_S) == code, command.err
    assert_drained(project, succeeded=1)
    assert "SIGINT: cancelling running attempts; writing results" in command.err
    assert "Traceback" not in command.err


def test_of_a_recorded_run_the_second_signal_does_not_say_that_the_output_is_written(project):
    with Command(project, *(part for part in batch("hang", "--run-id", "r") if part != "--no-journal")) as command:
        command.until_file("started-*", 3)
        command.send(signal.SIGTERM)
        command.until_said("repeat to cancel")
        command.send_once_more(signal.SIGINT)
        assert command.wait(CANCELS_WITHIN_S) == 143, command.err
    assert not list(project.glob("out.*"))
    assert "SIGINT: cancelling running attempts; results stay in the journal" in command.err
    assert "out.jsonl was not written; to write it: graphmill export r FILE" in command.err


def test_others_see_that_a_run_is_drained_and_how_much_still_runs(project):
    def status(*more):
        return answered(project, "status", "r", *more)

    with Command(project, *(part for part in batch("gate", "--run-id", "r") if part != "--no-journal")) as command:
        command.until_file("started-*", 3)
        assert "· running" in status()
        command.send(signal.SIGINT)
        command.until_said("repeat to cancel")
        command.until(lambda: "· running (stopping): 3 running; stopped by Ctrl-C before it was done\n" in status())
        seen = json.loads(status("--json"))
        assert (seen["state"], seen["is_live"], seen["eta_s"]) == ("running", True, None)
        open_gate(project)
        assert command.wait(within_s=20) == 130, command.err
    assert "\ngraphmill resume r " in command.out
    assert "· paused: stopped by Ctrl-C before it was done\n" in status()


def test_a_run_that_is_killed_while_it_is_drained_is_interrupted(project):
    with Command(project, *(part for part in batch("gate", "--run-id", "r") if part != "--no-journal")) as command:
        command.until_file("started-*", 3)
        command.send(signal.SIGINT)
        command.until_said("repeat to cancel")
        command.process.kill()
        command.wait()
    assert "r   paused   (interrupted)" in re.sub(r" +", "   ", answered(project, "runs"))


def test_the_third_signal_leaves_at_once_and_leaves_no_file(project):
    with Command(project, *batch("deaf_once_cancelled")) as command:
        command.until_file("started-*", 3)
        command.send(signal.SIGTERM)
        command.until_said("repeat to cancel")
        command.until_file(TEMPORARY)  # the rows of what was not started
        command.send_once_more(signal.SIGINT)
        command.until_said("repeat to exit")
        command.until_file("deaf")
        command.send_once_more(signal.SIGINT)
        assert command.wait(CANCELS_WITHIN_S) == 143
    assert not list(project.glob("*out.*")) + list(project.glob(TEMPORARY))
    assert command.out == ""
    assert "Traceback" not in command.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_function_that_blocks_the_loop_does_not_make_the_command_deaf(project, number):
    with Command(project, *batch("deaf")) as command:
        command.until_file("started-*")
        assert press_until_gone(command, number) == 128 + number
    assert not list(project.glob("*out.*")) + list(project.glob(TEMPORARY))
    assert "Traceback" not in command.err


def press_until_gone(command, number):
    """Signal again and again, as a person would."""
    for _ in range(600):
        command.send(number)
        with suppress(subprocess.TimeoutExpired):
            return command.wait(within_s=0.1)
    raise AssertionError("it did not leave")


def test_signals_that_come_at_the_same_time_are_one(project):
    with Command(project, *batch("gate")) as command:
        command.until_file("started-*", 3)
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT):
            command.send(number)
        command.until_said("repeat to cancel")
        open_gate(project)
        assert command.wait() in (129, 130, 143)
    assert_drained(project)
    assert "is cancelled" not in command.err


@pytest.mark.parametrize(("options", "code"), [([], 124), (["-k", "3600", "--preserve-status"], 143)])
def test_under_timeout_what_runs_when_the_time_is_over_may_end(project, options, code):
    with Command(project, *batch("gate"), argv=["timeout", "-s", "TERM", *options, "3600", *COMMAND]) as command:
        command.until_file("started-*", 3)
        command.send(signal.SIGALRM)  # so its timer tells it that the time is over; it passes SIGTERM on, twice
        command.until_said("SIGTERM: starting nothing new")
        open_gate(project)
        assert command.wait() == code
    assert_drained(project)
    assert "is cancelled" not in command.err


def test_under_nohup_a_terminal_that_hangs_up_is_no_reason_to_stop(project):
    with Command(project, *batch("gate"), argv=["nohup", *COMMAND]) as command:
        command.until_file("started-*", 3)
        command.send(signal.SIGHUP)
        open_gate(project)
        assert command.wait() == 0, command.err
    assert {row["status"] for row in rows(project / "out.jsonl")} == {"succeeded"}
    assert len(rows(project / "out.jsonl")) == 50


class Tmux:
    """A tmux server of our own, with one window in which a command is typed."""

    def __init__(self, project, shell):
        self._project = project
        self._folder = mkdtemp(prefix="tmux-")  # a socket's path is short
        self.do("new-session", "-d", "-s", "work", "-x", "120", "-y", "40", *shell)
        self.session = int(self.do("list-panes", "-t", "work", "-F", "#{pane_pid}"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with suppress(subprocess.CalledProcessError):  # it has ended already
            self.do("kill-server")
        shutil.rmtree(self._folder)
        for pid in members(self.session):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def do(self, *arguments):
        return subprocess.run(
            ["tmux", "-L", "graphmill", "-f", os.devnull, *arguments],
            cwd=self._project,
            env=environment(TMUX_TMPDIR=self._folder, TERM="xterm-256color"),
            capture_output=True,
            timeout=HANG_S,
            check=True,
        ).stdout


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("end", [["kill-session", "-t", "work"], ["kill-server"]])
@pytest.mark.parametrize("shell", [["sh"], ["bash", "--norc", "--noprofile", "-i"]])
def test_results_are_written_though_the_terminal_is_gone(project, end, shell):
    (project / "work.sh").write_text(f"trap : HUP\n{line_of(batch('gate'))}\necho $? > code.tmp\nmv code.tmp code\n")
    with Tmux(project, shell) as tmux:
        tmux.do("send-keys", "-t", "work", "sh work.sh", "Enter")
        until(lambda: len(list(project.glob("started-*"))) == 3)
        tmux.do(*end)
        until(lambda: list(project.glob(TEMPORARY)))  # the rows of what was not started
        open_gate(project)
        until((project / "code").exists)
        until(lambda: members(tmux.session) == [])
    assert (project / "code").read_text() == "129\n"
    assert_drained(project)


def until(is_so):
    """Wait for a sign of a process that is not our child."""
    latest = time.monotonic() + HANG_S
    while not is_so():
        assert time.monotonic() < latest
        time.sleep(0.01)


def test_a_reader_that_goes_away_ends_the_command_quietly(project):
    write_items(project, [{"value": "x" * 1000} for _ in range(5000)])
    open_gate(project)
    with Command(
        project, argv=["sh", "-c", f"{{ {line_of(batch('gate', output='-'))}; echo $? > code; }} | head -n 1 > first"]
    ) as command:
        assert command.wait() == 0
    assert (project / "code").read_text() == "74\n"
    assert len(rows(project / "first")) == 1
    assert "Traceback" not in command.err


def line_of(arguments):
    return " ".join(map(str, [*COMMAND, *arguments]))


def test_ctrl_c_in_a_pipe_writes_the_results_though_the_reader_dies_of_it(project):
    with Command(
        project, argv=["bash", "-c", f"trap : INT; {line_of(batch('gate'))} | cat > seen; exit ${{PIPESTATUS[0]}}"]
    ) as command:
        command.until_file("started-*", 3)
        os.killpg(command.process.pid, signal.SIGINT)
        command.until_said("repeat to cancel")
        command.until(lambda: not any(name_of(pid) == "cat" for pid in members(command.process.pid)))
        open_gate(project)
        assert command.wait() == 130, command.err
    assert_drained(project)
    assert "its results are in out.partial.jsonl" in command.err
    assert "Traceback" not in command.err


def name_of(pid):
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return None


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full"])
def test_a_signal_is_obeyed_though_nobody_can_hear_what_it_does(project, closed):
    with Command(project, argv=["sh", "-c", f"exec {line_of(batch('chatty'))} {closed}"]) as command:
        command.until_file("started-*", 3)
        command.send(signal.SIGINT)
        command.until_file(TEMPORARY)
        open_gate(project)
        assert command.wait() == 130, command.err
    assert_drained(project)


@pytest.mark.parametrize("is_signalled", [True, False])
@pytest.mark.parametrize("streams", [("stdout",), ("stderr",), ("stdout", "stderr")])
def test_readers_that_have_gone_do_not_hinder_a_run_that_writes_a_file(project, streams, is_signalled):
    with deserted_pipe() as pipe, Command(project, *batch("chatty"), **dict.fromkeys(streams, pipe)) as command:
        command.until_file("started-*", 3)
        if is_signalled:
            command.send(signal.SIGINT)
            command.until_file(TEMPORARY)
        open_gate(project)
        assert command.wait() == (130 if is_signalled else 74 if "stdout" in streams else 0), command.err
    if is_signalled:
        assert_drained(project)
    else:
        assert len(rows(project / "out.jsonl")) == 50
    assert "Traceback" not in command.err


@pytest.mark.parametrize("is_signalled", [True, False])
@pytest.mark.parametrize("make", [os.pipe, pty.openpty])
def test_a_reader_of_stderr_that_does_not_read_does_not_hinder_a_run(project, make, is_signalled):
    with unread(make) as end, Command(project, *batch("chatty"), stderr=end) as command:
        command.until_file("started-*", 3)
        if is_signalled:
            command.send(signal.SIGINT)
            command.until_file(TEMPORARY)
        open_gate(project)
        assert command.wait() == (130 if is_signalled else 0)
    if is_signalled:
        assert_drained(project)
    else:
        assert len(rows(project / "out.jsonl")) == 50


@pytest.mark.parametrize("make", [os.pipe, pty.openpty])
def test_the_second_signal_does_not_wait_for_a_reader_of_stderr(project, make):
    with unread(make) as end, Command(project, *batch("stubborn", "--offset", 1), stderr=end) as command:
        command.until_file("started-*", 3)
        command.send(signal.SIGINT)
        command.until_file(TEMPORARY)  # the rows of what was not started: nothing else has ended
        command.send_once_more(signal.SIGINT)
        assert command.wait(CANCELS_WITHIN_S) == 130
    assert_drained(project, succeeded=0)


@pytest.mark.parametrize("make", [os.pipe, pty.openpty])
def test_the_third_signal_does_not_wait_for_a_reader_of_stderr(project, make):
    with unread(make) as end, Command(project, *batch("deaf"), stderr=end) as command:
        command.until_file("started-*")
        assert press_until_gone(command, signal.SIGINT) == 130


def test_the_second_signal_does_not_wait_for_a_reader_of_results_either(project):
    open_gate(project)
    with unread(os.pipe) as pipe, Command(project, *batch("gate", output="-"), stdout=pipe) as command:
        command.until_file("started-*", 50)
        command.send(signal.SIGINT)
        command.until_said("repeat to cancel")
        command.send_once_more(signal.SIGINT)
        assert command.wait(CANCELS_WITHIN_S) == 130
    assert "Traceback" not in command.err


def test_a_slow_reader_of_stderr_misses_nothing(project):
    open_gate(project)
    reader, writer = os.pipe()
    fcntl.fcntl(writer, 1031, 4096)  # F_SETPIPE_SZ: a page
    with Command(project, *batch("chatty"), "--limit", 2, stderr=writer) as command, os.fdopen(reader, "rb") as stream:
        os.close(writer)
        command.until_file("started-*", 2)
        said = stream.read().decode()
        assert command.wait() == 0
    assert (said.count("x" * 10_000), said.count("y" * 10_000)) == (40, 40)


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("stage", ["loading", "counting"])
def test_a_signal_before_the_run_has_begun_leaves_at_once(project, stage, number, code):
    held = (
        "from graphmill.datasets import row_file\nrow_file._COUNTED['jsonl'] = (lambda _: hold(), 2**30)"
        if stage == "counting"
        else "hold()"
    )
    (project / "functions.py").write_text(
        f"{FUNCTIONS}\ndef hold():\n    mark('begun')\n    while True:\n        time.sleep(0.1)\n{held}\n"
    )
    with Command(project, *batch("gate")) as command:
        command.until_file("begun")
        command.send(number)
        assert command.wait(CANCELS_WITHIN_S) == code
    assert not list(project.glob("*out.*"))
    assert "Traceback" not in command.err
    assert command.out == ""


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_after_the_run_has_ended_leaves_at_once_and_the_results_are_there(project, number, code):
    held = (
        "from graphmill.report.report import Report\nReport.closing_line = lambda _: (mark('ended'), time.sleep(3600))"
    )
    (project / "functions.py").write_text(f"{FUNCTIONS}\n{held}\n")
    open_gate(project)
    with Command(project, *batch("gate")) as command:
        command.until_file("ended")
        command.send(number)
        assert command.wait(CANCELS_WITHIN_S) == code
    assert len(rows(project / "out.jsonl")) == 50
    assert "Traceback" not in command.err


def test_a_summary_that_nobody_reads_does_not_make_the_command_deaf(project):
    open_gate(project)
    with unread(os.pipe) as pipe, Command(project, *batch("gate"), stdout=pipe) as command:
        command.until_file("out.jsonl")
        assert press_until_gone(command, signal.SIGINT) == 130
    assert len(rows(project / "out.jsonl")) == 50
    assert "Traceback" not in command.err


def test_a_source_that_nobody_ends_does_not_hold_the_end(project):
    arguments = ["batch", "gate.yaml", "-s", "-", "-o", "out.jsonl"]
    open_gate(project)
    with Command(project, *arguments, stdin=subprocess.PIPE) as command:
        command.process.stdin.write(b'{"value": 1}\n{"value": 2}\n')
        command.process.stdin.flush()
        command.until_file("started-*", 2)
        command.send(signal.SIGINT)
        assert command.wait(CANCELS_WITHIN_S) == 130, command.err
    assert_drained(project, succeeded=2)


def test_a_source_that_nobody_opens_at_its_other_end_does_not_hold_the_end(project):
    os.mkfifo(project / "pipe.jsonl")
    with Command(project, "batch", "gate.yaml", "-s", "pipe.jsonl", "-o", "out.jsonl") as command:
        command.until_said("items from pipe.jsonl")
        command.send(signal.SIGTERM)
        assert command.wait(CANCELS_WITHIN_S) == 143, command.err
    assert "Traceback" not in command.err


def test_200_stuck_functions_stop_the_run_at_the_cap_and_do_not_hold_the_process(tmp_path):
    script = """
import threading
import graphmill as gm

def never(value):
    threading.Event().wait()

policy = gm.Policy(concurrency=20, timeout_s=0.01, retry=gm.Retry(attempts=1))
report = gm.batch(never, range(200), policy=policy)
print(report.stopped, 100 < report.statistics.stuck <= 120, report.statistics.timed_out + report.statistics.cancelled)
"""
    with Command(tmp_path, argv=[sys.executable, "-c", script]) as command:
        assert command.wait(within_s=30) == 0, command.err
    assert command.out == "stuck True 200\n"
    assert "abandoned functions still run" in command.err
    assert "Traceback" not in command.err


def test_a_script_whose_source_waits_for_standard_input_can_be_interrupted(tmp_path):
    script = """
import pathlib
import graphmill as gm

try:
    gm.batch(lambda value: pathlib.Path("started").touch(), gm.source("-"))
except KeyboardInterrupt:
    print("interrupted")
"""
    with Command(tmp_path, argv=[sys.executable, "-c", script], stdin=subprocess.PIPE) as command:
        command.process.stdin.write(b"1\n")
        command.process.stdin.flush()
        command.until_file("started")
        command.send(signal.SIGINT)
        assert command.wait() == 0, command.err
    assert command.out == "interrupted\n"
    assert command.err == ""
