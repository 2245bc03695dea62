"""Another process that opens a journal: a script that says what it has done, one line at a time, and waits to be told to go on."""

import subprocess
import sys
from contextlib import contextmanager

from support import warm
from support.remains import HANG_S

PREAMBLE = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = {path!r}
from graphmill.journal.records import *
from graphmill.journal.sqlite.store import SqliteStore
from support.journal_rows import failed, result, results

def say(*words):
    print(*words, flush=True)

def wait():
    sys.stdin.readline()

path = {store!r}
"""


class JournalProcess:
    """The process; ``heard`` waits for its next line."""

    def __init__(self, process):
        self.process = process

    def heard(self):
        line = self.process.stdout.readline().strip()
        assert line, "it ended without a word"
        return line

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait(HANG_S)

    def ended(self):
        return self.process.wait(HANG_S)


@contextmanager
def journal_process(store, script):
    preamble = PREAMBLE.format(path=[entry for entry in sys.path if entry], store=str(store))
    with warm.start(
        [sys.executable, "-c", preamble + script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield JournalProcess(process)
        finally:
            process.kill()
