"""The real command as a process of its own: how a test starts it, waits for its signs, and signals it."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from graphmill.cli.signals import ECHO_S
from support import warm

COMMAND = [sys.executable, "-m", "graphmill"]
PROMPT_BATCH = ("batch", "--prompt", "${text}", "-m", "own/m", "-s", "items.jsonl")
HANG_S = 60.0  # for what promises no time

# The command line as it is, but that it tries again at once, and parks a run without a minute of probes.
IMPATIENT = [
    sys.executable,
    "-c",
    """
from dataclasses import replace
from graphmill.cli.commands import batch
from graphmill.cli.main import main
from graphmill.engine.scheduling import health
health._FIRST_PROBE_S = 0.05
of = batch.policy_of
def policy_of(**given):
    policy = of(**given)
    return replace(policy, park_after_s=0.1, retry=replace(policy.retry, wait_s=0.01))
batch.policy_of = policy_of
main()
""",
]


def environment(**more):
    return {
        **{key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "NO_COLOR", "TMUX")},
        **more,
    }


def rows(path):
    return [json.loads(line) for line in Path(path).read_bytes().split(b"\n") if line]


def run(project, *arguments, stdin=b"", argv=COMMAND, **variables):
    """Run a command to its end; give its status, and what it wrote on standard output and standard error."""
    done = warm.run(
        [*argv, *map(str, arguments)],
        cwd=project,
        input=stdin,
        capture_output=True,
        timeout=HANG_S,
        env=environment(**variables),
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def answered(project, *arguments, **variables):
    """Run a command that goes well; give what it answers."""
    code, out, err = run(project, *arguments, **variables)
    assert code == 0, err
    return out


def write_items(project, items, name="items.jsonl"):
    (project / name).write_text("".join(json.dumps(item) + "\n" for item in items))
    return name


def members(session):
    """The processes of a session that still run."""
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.Error):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


class Command:
    """A command in a session of its own. When it is left, nothing of that session may run any more."""

    def __init__(
        self,
        project,
        *arguments,
        stdin=subprocess.DEVNULL,
        stdout=None,
        stderr=None,
        argv=COMMAND,
        cwd=None,
        variables=None,
    ):
        self.project = project
        with (project / "stdout").open("wb") as out, (project / "stderr").open("wb") as err:
            self.process = warm.start(
                [*argv, *map(str, arguments)],
                cwd=cwd or project,
                stdin=stdin,
                stdout=out if stdout is None else stdout,
                stderr=err if stderr is None else stderr,
                env=environment(**(variables or {})),
                start_new_session=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        left = members(self.process.pid)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with self.process:
            pass
        assert kind is not None or left == []

    @property
    def out(self):
        return (self.project / "stdout").read_text()

    @property
    def err(self):
        """What it has said; of a long line the beginning."""
        return "".join(f"{line[:500]}\n" for line in (self.project / "stderr").read_text().splitlines())

    def send(self, number):
        self.process.send_signal(number)

    def send_once_more(self, number):
        """Signal again, when this can no longer be taken for an echo of the signal before, whose note has been seen."""
        time.sleep(ECHO_S)
        self.send(number)

    def until(self, is_so):
        """Wait for a sign."""
        latest = time.monotonic() + HANG_S
        while not is_so():
            assert time.monotonic() < latest, self.err
            assert self.process.poll() is None or is_so(), self.err
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=0.01)

    def until_file(self, pattern, count=1):
        self.until(lambda: len(list(self.project.glob(pattern))) >= count)

    def until_said(self, text):
        self.until(lambda: text in self.err)

    def wait(self, within_s=HANG_S):
        return self.process.wait(timeout=within_s)
