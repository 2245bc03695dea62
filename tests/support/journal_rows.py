"""Rows for a journal, with everything that a test does not care about filled in."""

import msgspec

from graphmill.core.json import canonical, digest, item_key
from graphmill.core.result import Failure, Kind, Status
from graphmill.journal.records import ResultRow

CONTENT = digest(b"the input")


def result(item_id="a", position=0, **changes):
    """A result that succeeded, unless it is said otherwise."""
    row = ResultRow(
        key=item_key(item_id),
        generation=1,
        item_id=item_id,
        position=position,
        content=CONTENT,
        status=Status.SUCCEEDED,
        kind=None,
        attempts=1,
        queued_s=0.25,
        duration_s=1.5,
        input=canonical({"id": position}),
        output=canonical({"answer": position}),
        error=None,
    )
    return msgspec.structs.replace(row, **changes)


def failed(item_id="a", position=0, kind=Kind.PERMANENT, **changes):
    error = canonical(Failure(kind=kind, message="no", type="ValueError"))
    return result(
        item_id, position, **{"status": Status.FAILED, "kind": kind, "output": None, "error": error, **changes}
    )


def results(count, *, first=0, **changes):
    return [result(f"item-{number}", number, **changes) for number in range(first, first + count)]
