"""Rows as the database holds them, with the digest that tells whether they are still what was written."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from marshal import dumps
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

from graphmill.core.errors import DamagedError
from graphmill.core.json import digest
from graphmill.core.result import Kind, Status
from graphmill.journal.bodies import kept_usage, last_step_of, read_usage, spent_body, spent_from, to_entry
from graphmill.journal.records import (
    CANCELLED,
    FAILURE_CAUSES,
    FINISHED,
    HELD,
    PAUSE_CAUSES,
    RUNNING,
    STOPPING,
    AttemptRow,
    Entry,
    ItemNotes,
    ResultRow,
    RunRecord,
    RunState,
    RunStatus,
    Spent,
    StepRow,
    SuspectRow,
    WantedRow,
)
from graphmill.journal.sqlite.faults import damaged

Stored = tuple[Any, ...]
T = TypeVar("T")

# The numbers that the database holds in place of words. From 0.1 on: append only, a number keeps its meaning.
STATUS_CODES = {
    Status.SUCCEEDED: 1,
    Status.FAILED: 2,
    Status.TIMED_OUT: 3,
    Status.CANCELLED: 4,
    Status.WAITING: 5,
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
# In the place of a kind: what succeeded has none.
DEGRADED = 10
PARTIAL = 11
DEGRADED_PARTIAL = 12
STATE_CODES = {
    RUNNING: 1,
    HELD: 2,
    FINISHED: 3,
    CANCELLED: 4,
    STOPPING: 5,
    **{RunStatus(RunState.PAUSED, cause): 10 + code for code, cause in enumerate(PAUSE_CAUSES)},
    **{RunStatus(RunState.FAILED, cause): 20 + code for code, cause in enumerate(FAILURE_CAUSES)},
}
STATUSES = {code: status for status, code in STATUS_CODES.items()}
FLAGGED_DEGRADED = frozenset({DEGRADED, DEGRADED_PARTIAL})
FLAGGED_PARTIAL = frozenset({PARTIAL, DEGRADED_PARTIAL})
KINDS = {code: kind for kind, code in KIND_CODES.items()} | dict.fromkeys(FLAGGED_DEGRADED | FLAGGED_PARTIAL)
RUN_STATUSES = {code: status for status, code in STATE_CODES.items()}

_SUCCEEDED = STATUS_CODES[Status.SUCCEEDED]

_COMPRESS_ABOVE = 1024
_ZLIB = b"x"  # the first byte of all that zlib writes, and of no JSON
PACKING = 2  # marshal's second version: the same bytes for the same values in every Python; we only hash them


class ResultHead(NamedTuple):
    """The columns of a result that are read without its bodies."""

    run: int
    key: bytes
    generation: int
    position: int
    status: int
    kind: int
    content: bytes


HEAD = len(ResultHead._fields)
SELDOM = 3  # the last columns of a result, and of a step, which most do not have, such as its error
_NOT_THERE = (None,) * SELDOM
STEP_HEAD = 4  # the columns of a step before its seal


def digest_of(values: Stored) -> bytes:
    """Hash a whole row of plain values."""
    return digest(dumps(values, PACKING))


def _digest(head: bytes, tail: Stored) -> bytes:
    return digest(head + dumps(tail, PACKING))


def seal_of(values: Stored) -> int:
    """Checksum a few small values, at a tenth of a digest's cost; finds every change within four bytes in a row."""
    return crc32(dumps(values, PACKING))


def encode_result(run: int, row: ResultRow, at: float) -> Stored:
    """Return the values of ``insert_result``, without the last ones if none of them is there.

    sqlite3 searches for an adapter of bytes and None, which takes longer than storing them; it takes a bytearray as is.
    """
    status, kind, error, more, spent = row.status, row.kind, row.error, row.more, row.spent
    # The usual case without a look-up: the hash of an Enum is a call into Python.
    status_code = _SUCCEEDED if status is Status.SUCCEEDED else STATUS_CODES[status]
    kind_code = 0
    if row.is_degraded:
        kind_code = DEGRADED_PARTIAL if row.is_partial else DEGRADED
    elif row.is_partial:
        kind_code = PARTIAL
    elif kind is not None:
        kind_code = KIND_CODES[kind]
    head = (run, row.key, row.generation, row.position, status_code, kind_code, row.content)
    # + 0.0, since what is stored as a real comes back as a float, and never as minus nought
    queued_s, took_s, name = row.queued_s + 0.0, row.duration_s + 0.0, row.item_id.encode(errors="surrogatepass")
    given, output = row.input, row.output
    if given is not None and len(given) > _COMPRESS_ABOVE:
        given = compressed(given)
    if output is not None and len(output) > _COMPRESS_ABOVE:
        output = compressed(output)
    if error is None and more is None and spent is None:
        seldom: Stored = ()
        tail: Stored = (at, row.attempts, queued_s, took_s, name, given, output, None, None, None)
    else:
        seldom = (_stored(error), _stored(more), spent_body(spent))
        tail = (at, row.attempts, queued_s, took_s, name, given, output, *seldom)
    packed = dumps(head, PACKING)  # once, for the seal and for the digest
    return (
        run,
        bytearray(row.key),
        row.generation,
        row.position,
        status_code,
        kind_code,
        bytearray(row.content),
        crc32(packed),
        bytearray(_digest(packed, tail)),
        at,
        row.attempts,
        queued_s,
        took_s,
        bytearray(name),
        given and bytearray(given),
        output and bytearray(output),
        *seldom,
    )


def alike(rows: list[Stored]) -> list[Stored]:
    """Return encoded results, or steps, with the same columns: all, if one of them has all."""
    longest = max(map(len, rows))
    if sum(map(len, rows)) == longest * len(rows):
        return rows
    return [each if len(each) == longest else each + _NOT_THERE for each in rows]


def decode_result(stored: Stored) -> tuple[ResultRow, float] | None:
    """Return a row, without its row number, as it was appended and when; None if it is not what was written."""
    head, seal, noted, tail = stored[:HEAD], stored[HEAD], stored[HEAD + 1], stored[HEAD + 2 :]
    packed = dumps(head, PACKING)
    if noted != _digest(packed, tail) or seal != crc32(packed):
        return None
    _, key, generation, position, status, kind, content = head
    at, attempts, queued_s, duration_s, item_id, given, output, error, more, spent = tail
    row = ResultRow(
        key=key,
        generation=generation,
        item_id=text_of(item_id),
        position=position,
        content=content,
        status=STATUSES[status],
        kind=KINDS[kind],
        attempts=attempts,
        queued_s=queued_s,
        duration_s=duration_s,
        input=_body(given),
        output=_body(output),
        error=_body(error),
        more=_body(more),
        is_degraded=kind in FLAGGED_DEGRADED,
        spent=_spent(spent),
        is_partial=kind in FLAGGED_PARTIAL,
    )
    return row, at


def encode_step(run: int, row: StepRow) -> Stored:
    """Return the values of ``insert_step``, as those of a result."""
    path = bytes_of(row.path)
    head = (run, row.key, row.generation, path)
    duration_s, began_s = row.duration_s + 0.0, row.began_s + 0.0
    place = (*head, seal_of(head), row.content, row.attempts, duration_s, began_s)
    usage = kept_usage(row.usage, row.spent)
    output, *seldom = bodies = (_stored(row.output), _stored(row.error), usage, spent_body(row.spent))
    return (
        run,
        bytearray(row.key),
        row.generation,
        bytearray(path),
        place[STEP_HEAD],
        bytearray(row.content),
        row.attempts,
        duration_s,
        began_s,
        bytearray(digest_of((place, bodies))),
        output and bytearray(output),
        *(() if seldom == [None] * SELDOM else seldom),
    )


def decode_step(stored: Stored) -> StepRow | None:
    """Return a step as it was appended; None if it is not what was written."""
    *place, noted, output, error, usage, spent = stored
    if noted != digest_of((tuple(place), (output, error, usage, spent))):
        return None
    _, key, generation, path, _, content, attempts, duration_s, began_s = place
    spent = _spent(spent)
    return StepRow(
        key,
        generation,
        text_of(path),
        content,
        attempts,
        duration_s,
        _body(output),
        _body(error),
        read_usage(usage, spent),
        began_s,
        spent,
    )


def encode_attempt(run: int, row: AttemptRow) -> Stored:
    """Return the values of ``insert_attempt``."""
    place = (run, row.key, row.generation, bytes_of(row.path), row.attempt, KIND_CODES[row.kind])
    bodies = (_stored(row.error), kept_usage(row.usage, row.spent), spent_body(row.spent))
    return (*place, digest_of((place, bodies)), *bodies)


def decode_attempt(stored: Stored) -> AttemptRow | None:
    """Return an attempt as it was appended; None if it is not what was written."""
    *place, noted, error, usage, spent = stored
    if noted != digest_of((tuple(place), (error, usage, spent))):
        return None
    _, key, generation, path, attempt, kind = place
    spent = _spent(spent)
    return AttemptRow(
        key, generation, text_of(path), attempt, KINDS[kind], _body(error), read_usage(usage, spent), spent
    )


def encode_wanted(run: int, row: WantedRow) -> Stored:
    """Return the values of ``insert_wanted``."""
    return sealed((run, row.key, row.generation))


def encode_suspect(run: int, row: SuspectRow) -> Stored:
    """Return the values of ``insert_suspect``."""
    return sealed((run, row.key, row.crashes, row.alone))


def sealed(values: Stored) -> Stored:
    """Add its seal to a small row."""
    return (*values, seal_of(values))


def is_sealed(stored: Stored) -> bool:
    """Return whether a small row is still what was written."""
    return bool(stored[-1] == seal_of(stored[:-1]))


def bytes_of(text: str) -> bytes:
    """Return any text as bytes, even one with half of a surrogate pair."""
    return text.encode(errors="surrogatepass")


def text_of(data: bytes) -> str:
    """Return the text back."""
    return data.decode(errors="surrogatepass")


def compressed(body: bytes) -> bytes:
    """Return a body as it is stored: smaller, where that saves something."""
    if len(body) <= _COMPRESS_ABOVE:
        return body
    smaller = zlib.compress(body, 1)
    if len(smaller) < len(body):
        return smaller
    return body


def decompressed(stored: bytes) -> bytes:
    """Return the body back; zlib.error if it is damaged."""
    if stored[:1] == _ZLIB:
        return zlib.decompress(stored)
    return stored


def _stored(body: bytes | None) -> bytes | None:
    return None if body is None else compressed(body)


def _spent(body: bytes | None) -> Spent | None:
    return None if body is None else spent_from(body)


def _body(stored: bytes | None) -> bytes | None:
    return None if stored is None else decompressed(stored)


class RowDecoder:
    """Decodes the rows of one run; DamagedError names the first that is not what was written."""

    def __init__(self, name: str, run: RunRecord) -> None:
        self._name = name
        self._run = run

    def heads(self, found: Iterable[Stored]) -> Iterator[Stored]:
        """Let through results without their bodies, each followed by its seal and row number."""
        for head in found:
            if head[HEAD] != crc32(dumps(head[:HEAD], PACKING)):  # seal_of, without a call
                raise self.damaged_row("results", head[HEAD + 1])
            yield head

    def step_heads(self, found: Iterable[Stored]) -> Iterator[Stored]:
        """Let through steps without their bodies, each followed by its seal and row number."""
        for head in found:
            if head[STEP_HEAD] != crc32(dumps(head[:STEP_HEAD], PACKING)):
                raise self.damaged_row("steps", head[STEP_HEAD + 1])
            yield head

    def all_heads(self, found: Iterable[Stored], *, written: int) -> Iterator[Stored]:
        """Let through all of a run; DamagedError at the end if they were not as many as were written."""
        count = 0
        for head in self.heads(found):
            count += 1
            yield head
        if count != written:
            raise damaged(self._name, count_text("results", self._run.id, count, written))

    def notes(self, *, attempts: Iterable[Stored], steps: Iterable[Stored], suspects: Iterable[Stored]) -> ItemNotes:
        """Decode what is recorded of an item beside its results."""
        return ItemNotes(
            attempts=self._decoded(attempts, decode_attempt, "attempts"),
            steps=self._decoded(steps, decode_step, "steps"),
            suspect=next((SuspectRow(*row[1:4]) for row in self._sealed(suspects, "suspects")), None),
        )

    def wanted(self, found: Iterable[Stored]) -> dict[bytes, int]:
        """Decode which generations are wanted at least, by key."""
        return {key: generation for _, key, generation, _ in self._sealed(found, "wanted")}

    def entry(self, stored: Stored, orphans: frozenset[bytes]) -> Entry:
        """Decode a whole result."""
        ((row, at),) = self._decoded([stored], decode_result, "results")
        try:
            is_outdated = self._run.is_outdated(row.generation)
            return to_entry(row, at=at, is_orphaned=row.key in orphans, is_outdated=is_outdated)
        except (KeyError, TypeError, ValueError) as error:
            raise self.damaged_row("results", stored[0], row.item_id) from error

    def last_steps(self, stored: Sequence[Stored]) -> list[StepRow]:
        """Decode the steps that whole results hold."""
        steps = []
        for row, (result, _) in zip(stored, self._decoded(stored, decode_result, "results"), strict=True):
            try:
                steps.append(last_step_of(result))
            except (KeyError, TypeError, ValueError) as error:
                raise self.damaged_row("results", row[0], result.item_id) from error
        return [step for step in steps if step is not None]

    def damaged_row(self, table: str, row: int, item_id: str | None = None) -> DamagedError:
        """Return the error for a row that is not what was written, with its item."""
        place = f"run {self._run.id}"
        if item_id is not None:
            place += f", item {item_id!r:.80}"
        return damaged(self._name, f"row {row} of {table} ({place})")

    def _decoded(self, found: Iterable[Stored], decode: Callable[[Stored], T | None], table: str) -> list[T]:
        """Decode rows that begin with their number."""
        decoded = []
        for number, *values in found:
            if values[0] != self._run.number or (row := decode(tuple(values))) is None:
                item_id = None
                if table == "results" and isinstance(values[HEAD + 6], bytes):  # it may itself be what is damaged
                    item_id = values[HEAD + 6].decode(errors="replace")
                raise self.damaged_row(table, number, item_id)
            decoded.append(row)
        return decoded

    def _sealed(self, found: Iterable[Stored], table: str) -> list[Stored]:
        rows = list(found)
        if not all(map(is_sealed, rows)):
            raise damaged(self._name, f"a row of {table} (run {self._run.id})")
        return rows


def count_text(table: str, run_id: str, found: int, written: int) -> str:
    """Say that rows of a run are missing, or too many."""
    return f"the number of {table} of run {run_id} ({found}, where {written} were written)"
