"""A run's own row in the database, and how it is read and written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, NamedTuple

from graphmill.core.errors import UnknownRunError
from graphmill.core.json import canonical
from graphmill.core.usage import RunUsage, add_by_model, with_lost
from graphmill.journal.bodies import spent_body, spent_from
from graphmill.journal.records import INTERRUPTED, Owner, RunRecord, RunRow
from graphmill.journal.sqlite.faults import damaged
from graphmill.journal.sqlite.rows import (
    RUN_STATUSES,
    STATE_CODES,
    Stored,
    bytes_of,
    count_text,
    decode_result,
    digest_of,
    is_sealed,
    text_of,
)
from graphmill.journal.sqlite.statements import SQL

MOST_UNCOUNTED = 128  # results; their rows follow the last one that is counted, without a gap


class StoredRun(NamedTuple):
    """The columns of ``runs`` but the digest. In the database ``last``, ``rows`` and ``usage`` may be a little behind.

    ``usage`` adds up what its rows say was spent; None is nothing.
    """

    number: int
    id: bytes
    epoch: int
    state: int
    reason: bytes
    generation: int
    created_at: float
    changed_at: float
    elapsed_s: float
    total: int | None
    is_read: int
    owner_host: bytes | None
    owner_pid: int | None
    owner_since: float | None
    first: int
    last: int
    rows: int
    steps: int
    attempts: int
    wanted: int
    suspects: int
    orphans: int
    calls: int = 0
    usage: bytes | None = None

    @property
    def digest(self) -> bytes:
        """The digest of the row."""
        return digest_of(tuple(self))

    @property
    def name(self) -> str:
        """Its id, for people."""
        return self.id.decode(errors="replace")

    @property
    def may_be_behind(self) -> bool:
        """Whether some results may be uncounted: never before the first, and never once the run has ended."""
        return self.first > 0 and RUN_STATUSES[self.state].is_live

    @property
    def owner(self) -> Owner | None:
        """The last owner, if there was any."""
        if self.owner_host is None or self.owner_pid is None or self.owner_since is None:
            return None
        return Owner(host=text_of(self.owner_host), pid=self.owner_pid, since=self.owner_since)

    def changed(self, row: RunRow) -> StoredRun:
        """Apply what an owner says of its run; None changes nothing."""
        stored: dict[str, Any] = {
            "state": None if row.status is None else STATE_CODES[row.status],
            "reason": None if row.reason is None else bytes_of(row.reason),
            "total": row.total,
            "is_read": None if row.is_read is None else int(row.is_read),
            "generation": row.generation,
        }
        found = {name: value for name, value in stored.items() if value is not None}
        return self._replace(elapsed_s=self.elapsed_s + row.more_s, **found)

    def record(self, manifest: Mapping[str, Any], *, is_owned: bool, held_nano: int = 0) -> RunRecord:
        """Return the run as readers see it: without a living owner it is interrupted, not running."""
        status = RUN_STATUSES[self.state]
        return RunRecord(
            number=self.number,
            id=self.name,
            status=INTERRUPTED if status.is_live and not is_owned else status,
            reason=text_of(self.reason),
            owner=self.owner,
            epoch=self.epoch,
            generation=self.generation,
            created_at=self.created_at,
            changed_at=self.changed_at,
            elapsed_s=self.elapsed_s,
            total=self.total,
            is_read=bool(self.is_read),
            rows=self.rows,
            orphans=self.orphans,
            steps=self.steps,
            notes=self.attempts + self.steps + self.suspects,
            manifest=manifest,
            usage=with_lost(RunUsage(spent_from(self.usage)), held_nano),
        )


def read_runs(connection: sqlite3.Connection, name: str) -> list[StoredRun]:
    """Read all runs, oldest first; as many as were noted, each as it was written."""
    runs = [_whole(connection, stored, name) for stored in connection.execute(SQL["all_runs"]).fetchall()]
    if [len(runs)] != [count for (count,) in connection.execute(SQL["meta"], ("runs",))]:
        raise damaged(name, "the number of runs")
    return runs


def read_run(
    connection: sqlite3.Connection, number: int, run_id: str, name: str, *, is_strict: bool = False
) -> StoredRun:
    """Read one run that was there before."""
    for stored in connection.execute(SQL["one_run"], (number,)).fetchall():
        return _whole(connection, stored, name, is_strict=is_strict)
    read_runs(connection, name)  # one that cannot be found through a damaged page is not one that was pruned
    raise UnknownRunError(f"{name} no longer holds run {run_id}: it was pruned")


def read_named(connection: sqlite3.Connection, run_id: str, name: str) -> StoredRun | None:
    """Read the run of this id alone; None if the index finds none, or another, which may be the index's fault."""
    found = [
        _whole(connection, stored, name, is_strict=True)
        for stored in connection.execute(SQL["named_run"], (bytes_of(run_id),)).fetchall()
    ]
    return next((run for run in found if run.name == run_id), None)


def write_run(connection: sqlite3.Connection, run: StoredRun, epoch: int) -> bool:
    """Write a run's row; False, and nothing done, if its epoch is not this one any more."""
    values = (*run[2:6], *run[7:], run.digest, run.number, epoch)
    return connection.execute(SQL["update_run"], values).rowcount == 1


def write_counters(connection: sqlite3.Connection, run: StoredRun, epoch: int) -> bool:
    """Write what changes with an append, and no more."""
    values = (run.changed_at, *run[-10:], run.digest, run.number, epoch)
    return connection.execute(SQL["update_counters"], values).rowcount == 1


def write_manifest(connection: sqlite3.Connection, number: int, manifest: Mapping[str, Any]) -> None:
    """Write what a run was started with."""
    body = canonical(manifest)
    connection.execute(SQL["put_manifest"], (number, body, digest_of((number, body))))


def read_manifest(connection: sqlite3.Connection, run: StoredRun, name: str) -> Mapping[str, Any]:
    """Read what a run was started with."""
    for body, digest in connection.execute(SQL["manifest"], (run.number,)):
        if digest == digest_of((run.number, body)):
            found: Mapping[str, Any] = json.loads(body)
            return found
    raise damaged(name, f"the manifest of run {run.name}")


def verify_counts(connection: sqlite3.Connection, run: StoredRun, name: str) -> None:
    """Raise DamagedError if rows of a run are missing or not indexed; values are checked when they are read."""
    (count,) = connection.execute(SQL["counted_results"], (run.number, run.first, run.last)).fetchone()
    _require_count(run, "results", count, run.rows, name)
    for table, written in (("steps", run.steps), ("attempts", run.attempts)):
        (count,) = connection.execute(SQL[f"counted_{table}"], (run.number,)).fetchone()
        _require_count(run, table, count, written, name)
    for table, written in (("wanted", run.wanted), ("suspects", run.suspects)):
        count = sum(map(is_sealed, connection.execute(SQL[table], (run.number,))))
        _require_count(run, table, count, written, name)


def _require_count(run: StoredRun, table: str, count: int, written: int, name: str) -> None:
    if count != written:
        raise damaged(name, count_text(table, run.name, count, written))


def _whole(connection: sqlite3.Connection, stored: Stored, name: str, *, is_strict: bool = False) -> StoredRun:
    """Check a run's row, and count what it does not count yet, one for each row, so that a missing row is noticed.

    Unless ``is_strict``, usage in damaged results is left out, so that such a run can be listed and pruned.
    """
    *values, digest = stored
    run = StoredRun._make(values)
    if digest != run.digest:
        raise damaged(name, f"row {run.number} of runs")
    if not run.may_be_behind:
        return run
    (last,) = connection.execute(SQL["last_of_run"], (run.number, run.last, run.last + MOST_UNCOUNTED)).fetchone()
    if last is None:
        return run
    usage = _with_uncounted(connection, run, last, name if is_strict else None)
    return run._replace(rows=run.rows + last - run.last, last=last, usage=usage)


def _with_uncounted(connection: sqlite3.Connection, run: StoredRun, last: int, name: str | None) -> bytes | None:
    """Add up the usage of uncounted results up to this one; without the store's name damage is passed over."""
    usage = spent_from(run.usage)
    for number, *values in connection.execute(SQL["spent_uncounted"], (run.number, run.last + 1, last)):
        found = decode_result(tuple(values))
        if found is not None:
            usage = add_by_model(usage, found[0].spent or {})
        elif name is not None:
            raise damaged(name, f"row {number} of results (run {run.name})")
    return spent_body(usage)
