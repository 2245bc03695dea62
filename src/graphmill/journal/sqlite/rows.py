"""Rows as the database holds them, with the digest that tells whether they are still what was written."""

from __future__ import annotations

import zlib
from marshal import dumps
from typing import Any, NamedTuple
from zlib import crc32

from graphmill.core.json import digest
from graphmill.core.result import Status
from graphmill.journal.bodies import spent_body, spent_from
from graphmill.journal.records import AttemptRow, ResultRow, Spent, StepRow, SuspectRow, WantedRow
from graphmill.journal.sqlite.codes import DEGRADED, KIND_CODES, KINDS, STATUS_CODES, STATUSES

Stored = tuple[Any, ...]

_SUCCEEDED = STATUS_CODES[Status.SUCCEEDED]

_COMPRESS_ABOVE = 1024
_ZLIB = b"x"  # the first byte of all that zlib writes, and of no JSON
PACKING = 2  # marshal's second version: the same bytes for the same values in every Python; we only hash them


class Head(NamedTuple):
    """The columns of a result that are read without its bodies."""

    run: int
    key: bytes
    generation: int
    position: int
    status: int
    kind: int
    content: bytes


HEAD = len(Head._fields)
SELDOM = 3  # the last columns of a result, and of a step, which most do not have, such as its error
_NOT_THERE = (None,) * SELDOM
STEP_HEAD = 4  # the columns of a step before its seal


def digest_of(values: Stored) -> bytes:
    """Hash a whole row of plain values."""
    return digest(dumps(values, PACKING))


def _digest(head: bytes, tail: Stored) -> bytes:
    return digest(head + dumps(tail, PACKING))


def _without_nothing(values: Stored) -> Stored:
    """Leave out what was spent, which is the last, where that is nothing: its row has the digest it had before there was a place for it."""
    return values[:-1] if values[-1] is None else values


def seal_of(values: Stored) -> int:
    """Check a few small values, at a tenth of the cost of a digest: finds every change within four neighbouring bytes."""
    return crc32(dumps(values, PACKING))


def encode_result(run: int, row: ResultRow, at: float) -> Stored:
    """Give the values of ``insert_result``, without the last ones if none of them is there.

    sqlite3 asks around how to adapt bytes, and None, which takes longer than to store them; a bytearray it takes as it is.
    """
    status, kind, error, more, spent = row.status, row.kind, row.error, row.more, row.spent
    # The usual case without a look-up: the hash of an Enum is a call into Python.
    status_code = _SUCCEEDED if status is Status.SUCCEEDED else STATUS_CODES[status]
    kind_code = DEGRADED if row.is_degraded else 0 if kind is None else KIND_CODES[kind]
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
        tail: Stored = (at, row.attempts, queued_s, took_s, name, given, output, None, None)
    else:
        seldom = (_stored(error), _stored(more), spent_body(spent))
        tail = _without_nothing((at, row.attempts, queued_s, took_s, name, given, output, *seldom))
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
    """Give encoded results, or steps, with the same columns: all, if one of them has all."""
    longest = max(map(len, rows))
    if sum(map(len, rows)) == longest * len(rows):
        return rows
    return [each if len(each) == longest else each + _NOT_THERE for each in rows]


def decode_result(stored: Stored) -> tuple[ResultRow, float] | None:
    """Give a row, without its row number, as it was appended and when; None if it is not what was written."""
    head, seal, noted, tail = stored[:HEAD], stored[HEAD], stored[HEAD + 1], stored[HEAD + 2 :]
    packed = dumps(head, PACKING)
    if noted != _digest(packed, _without_nothing(tail)) or seal != crc32(packed):
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
        is_degraded=kind == DEGRADED,
        spent=_spent(spent),
    )
    return row, at


def encode_step(run: int, row: StepRow) -> Stored:
    """Give the values of ``insert_step``, as those of a result."""
    path = bytes_of(row.path)
    head = (run, row.key, row.generation, path)
    duration_s, began_s = row.duration_s + 0.0, row.began_s + 0.0
    place = (*head, seal_of(head), row.content, row.attempts, duration_s, began_s)
    output, *seldom = bodies = (_stored(row.output), _stored(row.error), row.usage, spent_body(row.spent))
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
        bytearray(_step_digest(place, bodies)),
        output and bytearray(output),
        *(() if seldom == [None] * SELDOM else seldom),
    )


def decode_step(stored: Stored) -> StepRow | None:
    """Give a step as it was appended; None if it is not what was written."""
    *place, noted, output, error, usage, spent = stored
    if noted != _step_digest(tuple(place), (output, error, usage, spent)):
        return None
    _, key, generation, path, _, content, attempts, duration_s, began_s = place
    return StepRow(
        key,
        generation,
        text_of(path),
        content,
        attempts,
        duration_s,
        _body(output),
        _body(error),
        usage,
        began_s,
        _spent(spent),
    )


def _step_digest(place: Stored, bodies: Stored) -> bytes:
    return digest_of((place, _without_nothing(bodies)))


def encode_attempt(run: int, row: AttemptRow) -> Stored:
    """Give the values of ``insert_attempt``."""
    place = (run, row.key, row.generation, bytes_of(row.path), row.attempt, KIND_CODES[row.kind])
    bodies = (_stored(row.error), row.usage, spent_body(row.spent))
    return (*place, _attempt_digest(place, bodies), *bodies)


def decode_attempt(stored: Stored) -> AttemptRow | None:
    """Give an attempt as it was appended; None if it is not what was written."""
    *place, noted, error, usage, spent = stored
    if noted != _attempt_digest(tuple(place), (error, usage, spent)):
        return None
    _, key, generation, path, attempt, kind = place
    return AttemptRow(key, generation, text_of(path), attempt, KINDS[kind], _body(error), usage, _spent(spent))


def _attempt_digest(place: Stored, bodies: Stored) -> bytes:
    """Hash an attempt; one without usage, or without what was spent, as before there was a place for it."""
    error, usage, spent = bodies
    return digest_of(
        (place, *bodies) if spent is not None else (place, error) if usage is None else (place, error, usage)
    )


def encode_wanted(run: int, row: WantedRow) -> Stored:
    """Give the values of ``insert_wanted``."""
    return sealed((run, row.key, row.generation))


def encode_suspect(run: int, row: SuspectRow) -> Stored:
    """Give the values of ``insert_suspect``."""
    return sealed((run, row.key, row.crashes, row.alone))


def sealed(values: Stored) -> Stored:
    """Add its seal to a small row."""
    return (*values, seal_of(values))


def is_sealed(stored: Stored) -> bool:
    """Tell whether a small row is still what was written."""
    return bool(stored[-1] == seal_of(stored[:-1]))


def bytes_of(text: str) -> bytes:
    """Give any text as bytes, even one with half of a surrogate pair."""
    return text.encode(errors="surrogatepass")


def text_of(data: bytes) -> str:
    """Give the text back."""
    return data.decode(errors="surrogatepass")


def compressed(body: bytes) -> bytes:
    """Give a body as it is stored: smaller, where that saves something."""
    if len(body) <= _COMPRESS_ABOVE:
        return body
    smaller = zlib.compress(body, 1)
    return smaller if len(smaller) < len(body) else body


def decompressed(stored: bytes) -> bytes:
    """Give the body back; zlib.error if it is damaged."""
    return zlib.decompress(stored) if stored[:1] == _ZLIB else stored


def _stored(body: bytes | None) -> bytes | None:
    return None if body is None else compressed(body)


def _spent(body: bytes | None) -> Spent | None:
    return None if body is None else spent_from(body)


def _body(stored: bytes | None) -> bytes | None:
    return None if stored is None else decompressed(stored)
