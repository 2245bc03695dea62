"""The named points at which a command can be made to die: what is done there, and by which function."""

from itertools import product

FUNCTIONS = {
    "migration": "graphmill.journal.sqlite.database:prepare",
    "creation": "graphmill.journal.sqlite.store:SqliteStore.create",
    "taking": "graphmill.journal.sqlite.store:SqliteStore.take",
    "suspicion": "graphmill.journal.journal:Journal._suspects",
    "attempt": "graphmill.engine.attempts.workers:Workers.begin_step",
    "end": "graphmill.engine.jobs.life:Lives._end_step",
    "step": "graphmill.journal.writer:JournalWriter.step",
    "row": "graphmill.journal.sqlite.ledger:encode_step",
    "last": "graphmill.journal.bodies:_step",
    "result": "graphmill.journal.sqlite.ledger:encode_result",
    "enqueue": "graphmill.journal.writer:JournalWriter.finish",
    "commit": "graphmill.journal.sqlite.ledger:SqliteLedger.append",
    "ending": "graphmill.journal.writer:JournalWriter._end",
    "release": "graphmill.journal.sqlite.ledger:SqliteLedger.release",
    "rename": "pathlib:Path.replace",
}
EACH = ("attempt", "end", "step", "row", "last", "result", "enqueue")  # which are visited for each step or item
SIDES = ("before", "after")  # and "within": the call never ends, and the process lives on
NOT_THE_LAST = ("step", "row")  # of a step that others follow
POINTS = tuple(f"{side}-{name}" for name, side in product(FUNCTIONS, SIDES) if name not in NOT_THE_LAST)


def place(point):
    """Take a point apart: its side, and module and path of its function."""
    side, _, name = point.partition("-")
    module, _, path = FUNCTIONS[name].partition(":")
    return side, module, path
