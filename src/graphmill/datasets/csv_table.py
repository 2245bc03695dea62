"""CSV with a header line: a mapping of text per row. Results are written flat, for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from typing import Any, BinaryIO

from graphmill.core.json import to_json
from graphmill.datasets.row import ROW_FIELDS, Row

_NOT_UTF8 = re.compile(r"[\udc80-\udcff]")
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?[\d.]+(?:[eE][+-]?\d+)?")
_NOTHING_NOTED = ("metadata", "{}")


def read_csv(stream: BinaryIO) -> Generator[dict[str, str], None, None]:
    """Read row by row; a row that does not fit the header is an error that names its line."""
    csv.field_size_limit(sys.maxsize)  # the module's only limit is a global one, and 128 KiB
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
    rows = csv.reader(_utf8(text), strict=True)
    header: list[str] = []
    try:
        for row in filter(None, rows):
            if not header:
                header = row
                _require_header(header, rows.line_num)
            elif len(row) != len(header):
                raise ValueError(f"line {rows.line_num}: {len(row)} fields under a header of {len(header)}")
            else:
                yield dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: {error}") from error
    finally:
        text.detach()


def count_csv(stream: BinaryIO) -> int:
    """Count the rows under the header; what is wrong with them is told where they are read."""
    csv.field_size_limit(sys.maxsize)
    text = io.TextIOWrapper(stream, encoding="latin-1", newline="")
    found = sum(1 for row in csv.reader(text) if row)
    text.detach()
    return max(0, found - 1)


def _require_header(header: list[str], line: int) -> None:
    if len(set(header)) < len(header):
        raise ValueError(f"line {line}: the header names a column twice: {', '.join(header)}")
    if len(header) == 1 and (other := re.search(r"[;\t|]", header[0])):
        raise ValueError(
            f"line {line}: the header is one column, {header[0]!r:.80}; columns are parted by commas, not by {other[0]!r}"
        )


def _utf8(lines: Iterable[str]) -> Iterator[str]:
    """Refuse bytes that are not UTF-8 in the line in which they stand, not with the whole chunk that was read at once."""
    for number, line in enumerate(lines, start=1):
        if not line.isascii() and (bad := _NOT_UTF8.search(line)):
            raise ValueError(f"line {number}, column {bad.start() + 1}: not UTF-8; save the file in that encoding")
        yield line


class CsvWriter:
    """A flat table. The columns are known only at the end, so rows wait in a temporary file, not in memory."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._waiting = tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n")  # noqa: SIM115  closed by finish
        self._columns: dict[str, bool] = {}

    def write(self, row: Row) -> None:
        """Set a row aside."""
        flat = dict(_flat(json.loads(to_json(row))))
        for column, value in flat.items():
            self._columns[column] = self._columns.get(column, False) or (
                value is not None and (column, value) != _NOTHING_NOTED
            )
        self._waiting.write(to_json(flat) + "\n")

    def finish(self) -> None:
        """Write header and rows."""
        text = io.TextIOWrapper(self._stream, encoding="utf-8", newline="", errors="backslashreplace")
        with self._waiting:
            table = csv.DictWriter(text, self._header(), extrasaction="ignore")
            table.writeheader()
            self._waiting.seek(0)
            table.writerows(json.loads(line) for line in self._waiting)
        text.flush()
        text.detach()

    def _header(self) -> list[str]:
        """Keep a field's columns together, in the row's order; one that is empty beside columns of its own parts is left out."""
        parted = {column.partition(".")[0] for column in self._columns if "." in column}
        columns = [column for column, is_used in self._columns.items() if is_used or column not in parted]
        return sorted(columns, key=lambda column: ROW_FIELDS.index(column.partition(".")[0])) or list(ROW_FIELDS)

    def discard(self) -> None:
        """Let go of the rows set aside."""
        self._waiting.close()


def _flat(row: Row) -> Iterator[tuple[str, Any]]:
    """Give input, output and error one column per field, everything deeper as JSON text."""
    for name, value in row.items():
        if isinstance(value, dict) and value:
            yield from ((f"{name}.{field}", _cell(entry)) for field, entry in value.items())
        else:
            yield name, _cell(value)


def _cell(value: Any) -> Any:
    if isinstance(value, bool | dict | list):
        return to_json(value)
    if not isinstance(value, str):
        return value
    # A spreadsheet would run this as a formula; model output is data.
    return "'" + value if _FORMULA.match(value) and not _NUMBER.fullmatch(value) else value
