"""What a run has spent, added up from its rows alone: the run's own sum must be the same."""

import json
import sqlite3
from collections import Counter
from contextlib import closing

from msgspec.structs import asdict

import graphmill as gm

_COUNTED = "SELECT spent FROM {} WHERE spent IS NOT NULL AND run = (SELECT number FROM runs WHERE id = ?)"


def recounted(path, run_id):
    """Add up the rows of a run, by model; nothing that is nought."""
    found = {}
    with closing(sqlite3.connect(path)) as database:
        for table in ("results", "steps", "attempts"):
            for (body,) in database.execute(_COUNTED.format(table), (run_id,)):
                for model, usage in json.loads(body).items():
                    found.setdefault(model.split("\t")[0], Counter()).update(usage)
    return {model: dict(counts) for model, counts in found.items()}


def counted(path, run_id):
    """Give the run's own sum in the same form."""
    with closing(gm.open_journal(path)) as journal:
        usage = journal.archive.find(run_id).usage
    return {model: {name: count for name, count in asdict(each).items() if count} for model, each in usage.items()}
