"""A folder in which a fault test works: a workflow, its items, the log of effects, and the command run there."""

import itertools
import json
import signal
import sys
from pathlib import Path
from typing import NamedTuple

from faults.effects import WORKFLOW, gate
from support.command import HANG_S, Command, rows, write_items

TESTS = Path(__file__).parents[1]
RUN = "night"


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def is_killed(self):
        return self.code == -signal.SIGKILL


class Project:
    """Holds ``.graphmill`` (the store), ``out`` (what is exported), ``effects`` (the log), and the sources."""

    def __init__(self, folder, items, *, concurrency=4, workflow=WORKFLOW):
        self.folder = Path(folder)
        self.out = self.folder / "out"
        self.out.mkdir(parents=True)
        self.store = self.folder / ".graphmill"
        self.log = self.folder / "effects"
        self.concurrency = concurrency
        self._numbers = itertools.count(1)
        (self.folder / "workflow.yaml").write_text(workflow)
        self.put(items)

    def put(self, items):
        """Make these the items of the source."""
        self.items = list(items)
        write_items(self.folder, self.items)

    def shut(self, *, at=0):
        """Hold every call of an item before its end, once the log has so many lines."""
        gate(self.log).write_text(str(at))

    def open(self):
        gate(self.log).unlink()

    @property
    def batch(self):
        """The arguments of the first command."""
        return [
            "batch",
            "workflow.yaml",
            "--source",
            "items.jsonl",
            "--run-id",
            RUN,
            "--concurrency",
            str(self.concurrency),
        ]

    def start(self, *arguments, launch=(), variables=None, limits=None):
        """Start the command: by the launcher if it is told something, with more variables, under ``ulimit``.

        What each command says is kept in a folder of its own, so that several can run at once.
        """
        named = {"PYTHONPATH": str(TESTS), "EFFECTS": str(self.log), **(variables or {})}
        module = ["faults.launcher", *map(str, launch), "--"] if launch else ["graphmill"]
        shell = ["sh", "-c", f'ulimit {limits} && exec "$0" "$@"'] if limits else []
        said = self.folder / "said" / str(next(self._numbers))
        said.mkdir(parents=True)
        return Command(said, *arguments, argv=[*shell, sys.executable, "-m", *module], cwd=self.folder, variables=named)

    def run(self, *arguments, within_s=HANG_S, **how):
        """Run the command to its end, which may be a death."""
        with self.start(*arguments, **how) as command:
            command.wait(within_s)
        return ended(command)

    def exported(self, name="all.jsonl"):
        """Export all rows; read them."""
        done = self.run("export", RUN, f"out/{name}")
        assert done.code == 0, done
        return rows(self.out / name)

    def told(self, *arguments):
        """Ask a command for JSON."""
        done = self.run(*arguments, "--json")
        assert done.code == 0, done
        return json.loads(done.out)


def ended(command):
    return Ended(command.process.returncode, command.out, command.err)
