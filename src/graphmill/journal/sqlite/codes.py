"""The small numbers that stand for words in the database.

Append only: a number that was ever written keeps its meaning.
A new one comes with a migration, so that an older Graphmill refuses the store.
"""

from __future__ import annotations

from graphmill.core.result import Kind, Status
from graphmill.journal.records import RunState

STATUS_CODES = {
    Status.SUCCEEDED: 1,
    Status.FAILED: 2,
    Status.TIMED_OUT: 3,
    Status.CANCELLED: 4,
    Status.PAUSED: 5,
    Status.PENDING: 6,
    Status.RUNNING: 7,
    Status.RETRYING: 8,
}
KIND_CODES: dict[Kind | None, int] = {
    None: 0,
    Kind.THROTTLED: 1,
    Kind.UNAVAILABLE: 2,
    Kind.TRANSIENT: 3,
    Kind.PERMANENT: 4,
    Kind.TIMEOUT: 5,
    Kind.CRASH: 6,
    Kind.AMBIGUOUS: 7,
    Kind.CANCELLED: 8,
    Kind.PAUSED: 9,
}
DEGRADED = 10  # in the place of a kind: it succeeded, and so has none
STATE_CODES = {
    RunState.RUNNING: 1,
    RunState.HELD: 2,
    RunState.PAUSED: 3,
    RunState.FINISHED: 4,
    RunState.CANCELLED: 5,
    RunState.FAILED: 6,
    RunState.DRAINING: 7,
}
STATUSES = {code: status for status, code in STATUS_CODES.items()}
KINDS = {code: kind for kind, code in KIND_CODES.items()} | {DEGRADED: None}
STATES = {code: state for state, code in STATE_CODES.items()}
