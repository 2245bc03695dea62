"""Journals that a test can hold or break, and programs of their own that record and die."""

import asyncio
import os
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from textwrap import dedent
from threading import Event

import graphmill as gm
from graphmill.core.json import canonical, digest, item_key
from graphmill.journal.records import ResultRow
from support import warm
from support.remains import HANG_S, wait_until

EAGER = gm.Retry(attempts=3, wait_s=0, cap_s=0)
PROMPT = gm.Policy(retry=EAGER)


class Spied:
    """Something of which a few attributes are replaced."""

    def __init__(self, real, **replaced):
        self._real = real
        self.__dict__.update(replaced)

    def __getattr__(self, name):
        return getattr(self._real, name)


def watched(place, before_append):
    """Open a journal whose owners call ``before_append(rows)`` first, in the journal's thread."""
    store = gm.open_journal(place).store

    def take(run_id):
        ledger = store.take(run_id)

        def append(rows):
            before_append(rows)
            ledger.append(rows)

        return Spied(ledger, append=append)

    return gm.Journal(Spied(store, take=take))


class Gate:
    """Lets a journal write results only while it is open."""

    def __init__(self):
        self.reached = Event()
        self._open = Event()

    def __call__(self, rows):
        if any(isinstance(row, ResultRow) for row in rows):
            self.reached.set()
            assert self._open.wait(HANG_S)

    def open(self):
        self._open.set()


def reached(event):
    """Wait on the loop for an event of a thread."""
    return asyncio.to_thread(lambda: event.wait(HANG_S) or _hangs())


def _hangs():
    raise AssertionError("it never came to be")


def statuses(report):
    return {result.job_id: str(result.status) for result in report.results()}


class Calls:
    """Notes what a function was called with; ``told`` gives it."""

    def __init__(self):
        self.told = []

    async def __call__(self, item):
        self.told.append(item)
        return item


class Program:
    """A module ``program`` in a folder, with ``note(word)`` to leave words in a file, and processes that run scripts over it."""

    def __init__(self, folder, module):
        self.folder = Path(folder)
        (self.folder / "program.py").write_text(_PREAMBLE + dedent(module))

    def put(self, module):
        """Change the module."""
        self.__init__(self.folder, module)

    @property
    def journal(self):
        return self.folder / "journal.db"

    @property
    def notes(self):
        path = self.folder / "notes"
        return path.read_text().split() if path.exists() else []

    def history(self, run_id, item):
        """Read all that is recorded of an item that has no id."""
        with closing(gm.open_journal(self.journal)) as journal:
            name = digest(canonical(item)).hex()[:16]
            return journal.archive.history(journal.archive.find(run_id), item_key(name))

    def start(self, script):
        return warm.start(
            [sys.executable, "-c", "from program import *\n" + dedent(script)],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "GRAPHMILL_JOURNAL": "journal.db", "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def run(self, script, *, code=0):
        """Run a script to its end; give what it said."""
        with self.start(script) as process:
            out, err = process.communicate(timeout=HANG_S)
        assert process.returncode in (code if isinstance(code, set) else {code}), err
        return out.strip()

    @contextmanager
    def killed_when(self, script, word):
        """Run a script until the word is noted; kill it when this is left."""
        with self.start(script) as process:
            try:
                wait_until(lambda: word in self.notes or process.poll() is not None)
                assert word in self.notes, process.stderr.read()
                yield process
            finally:
                process.kill()


_PREAMBLE = """
import asyncio, os, signal, threading
import graphmill as gm

PROMPT = gm.Policy(concurrency=4, retry=gm.Retry(attempts=3, wait_s=0, cap_s=0))

def note(word):
    with open("notes", "a") as file:
        file.write(f"{word}\\n")

def noted():
    return open("notes").read().split() if os.path.exists("notes") else []

def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""
KILLED = -9
