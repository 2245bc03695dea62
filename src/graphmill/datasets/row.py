"""The result row: how files and streams hold results, whole, in chosen columns, or flat as in a table."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.core.json import MISSING, field_inside, to_json
from graphmill.core.result import Failure, Result
from graphmill.core.usage import counts_json
from graphmill.datasets.selection import UnseenFields

Row = dict[str, Any]
SCORES = "scores"  # where the scores of a result stand, in its metadata and in its row

ROW_FIELDS = (
    "id",
    "status",
    "input",
    "output",
    "error",
    "attempts",
    "queued_s",
    "duration_s",
    "usage",
    "cost_usd",
    "metadata",
    SCORES,
)


def row_of(result: Result) -> Row:
    """Return a result as a row; docs/results.md describes the fields."""
    row = {
        "id": result.job_id,
        "status": str(result.status),
        "input": result.input,
        "output": result.output,
        "error": None if result.error is None else _error(result.error),
        "attempts": result.attempts,
        "queued_s": round(result.queued_s, 6),
        "duration_s": round(result.duration_s, 6),
        "usage": None if result.usage is None else counts_json(result.usage),
        "cost_usd": result.cost_usd,
        "metadata": result.metadata,
    }
    if SCORES in result.metadata:  # of a run that was scored
        row["metadata"] = {name: value for name, value in result.metadata.items() if name != SCORES}
        row[SCORES] = result.metadata[SCORES]
    return row


_NOTHING: tuple[str, Row] = ("metadata", {})


class ColumnChoice:
    """The columns of a file: fields of the row or, by their own name, of output, input, metadata or scores."""

    def __init__(self, names: Sequence[str]) -> None:
        if isinstance(names, str) or not names or not all(isinstance(name, str) and name for name in names):
            raise UsageError(f"columns must be a list of names such as ['id', 'output.label'], got {names!r:.80}")
        self.names = tuple(dict.fromkeys(names))
        self._unseen = UnseenFields(self.names)

    def pick(self, row: Row) -> Row:
        """Return the chosen fields of a row, in their order; None for those that it does not have."""
        found = {name: _found(row, name) for name in self.names}
        self._unseen.note(found, lambda: FlatColumns().flat(row))
        return {name: None if value is MISSING else value for name, value in found.items()}

    def require_all(self) -> None:
        """Refuse a column that none of the rows had."""
        self._unseen.require_none("no row has a column")


def _found(row: Row, name: str) -> Any:
    for base in (row, row["output"], row["input"], row["metadata"], row.get(SCORES)):
        found = field_inside(base, name)
        if found is not MISSING:
            return found
    return MISSING


class FlatColumns:
    """The columns of a flat table, known only after the last row."""

    def __init__(self) -> None:
        self._fields: dict[str, int] = {}
        self._field_of: dict[str, str] = {}  # by column
        self._used: set[str] = set()

    def flat(self, row: Row) -> Row:
        """Return a row as plain data, with one column for each field of a mapping in it."""
        found: Row = {}
        for field, value in json.loads(to_json(row)).items():
            self._fields.setdefault(field, len(self._fields))
            parts = dict(_parts(field, value))
            found |= parts
            self._field_of |= dict.fromkeys(parts, field)
            self._used |= {name for name, part in parts.items() if part is not None and (name, part) != _NOTHING}
        return found

    def names(self) -> list[str]:
        """Order columns as the fields of the rows; leave out an empty one whose parts have columns of their own."""
        split = {field for column, field in self._field_of.items() if column != field}
        kept = [column for column in self._field_of if column in self._used or column not in split]
        return sorted(kept, key=lambda column: self._fields[self._field_of[column]]) or list(ROW_FIELDS)


class WaitingRows:
    """Flat rows in a temporary file, not in memory, until all columns are known."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n")  # noqa: SIM115  closed by close
        self._columns = FlatColumns()

    def add(self, row: Row) -> Row:
        """Keep a row, and return it flat."""
        flat = self._columns.flat(row)
        self._file.write(to_json(flat) + "\n")
        return flat

    def columns(self) -> list[str]:
        """Return the names of the columns, in order."""
        return self._columns.names()

    def __iter__(self) -> Iterator[Row]:
        self._file.seek(0)
        for line in self._file:
            yield json.loads(line)

    def close(self) -> None:
        """Delete the temporary file."""
        self._file.close()


def _parts(field: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Split a mapping into one column per entry, ``output.answer``; scores into one for each part of each score."""
    if not isinstance(value, Mapping) or not value:
        yield field, value
    elif field == SCORES:
        for scorer, score in value.items():
            yield from ((f"{field}.{scorer}.{part}", entry) for part, entry in score.items())
    else:
        yield from ((f"{field}.{name}", entry) for name, entry in value.items())


def _error(error: Failure) -> Row:
    row = {"kind": str(error.kind), "type": error.type, "message": error.message, "traceback": error.traceback}
    if error.answer:
        row["answer"] = error.answer
    if error.cause:
        row["cause"] = error.cause
    return row
