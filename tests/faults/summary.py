"""What a command says is done, and what the store holds of it."""

import json
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from graphmill.core.json import item_key

DONE = ("succeeded", "failed", "timed_out")


def shown(done):
    """Read how many items a command with --json said were done; one that came to say nothing said none."""
    return sum(json.loads(done.out)["statistics"][status] for status in DONE) if done.out.strip() else 0


def held(project):
    """Count the results in the store."""
    return sum(count for (count,) in _asked(project, "results", "SELECT count(*) FROM results"))


def steps_held(project):
    """List the outcomes of steps in the store, each as the id of its item and its path."""
    names = {item_key(item["id"]): item["id"] for item in project.items}
    return [
        (names[key], path.decode())
        for key, path in _asked(project, "steps", "SELECT key, path FROM steps WHERE attempts > 0")
    ]


def rows_held(project):
    """Count what the store holds of steps: their outcomes, and their failed attempts."""
    return len(_asked(project, "steps", "SELECT 1 FROM steps WHERE attempts > 0 UNION ALL SELECT 1 FROM attempts"))


def _asked(project, table, question):
    """Ask the store without its own help, and on a copy: whoever opens a store may change it."""
    with tempfile.TemporaryDirectory() as place:
        for path in project.store.glob("runs.db*"):
            if path.is_file() and not path.name.endswith("-shm"):
                with suppress(FileNotFoundError):  # the journal of a change that is over by now
                    shutil.copy(path, place)
        with closing(sqlite3.connect(Path(place) / "runs.db")) as base:
            has_table = base.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
            return base.execute(question).fetchall() if has_table else []
