"""CSV with a header line: each row is a mapping of text. Results are written as a flat table for spreadsheets."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Any, BinaryIO

from graphmill.core.json import to_json
from graphmill.datasets.row import Row, WaitingRows

_NOT_UTF8 = re.compile(r"[\udc80-\udcff]")
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?[\d.]+(?:[eE][+-]?\d+)?")
_OTHER_DELIMITERS = (";", "\t", "|")


def read_csv(
    stream: BinaryIO, on_bad: Callable[[ValueError], None]
) -> Generator[tuple[int, dict[str, str]], None, None]:
    """Read row by row, each with its line. Columns are separated by commas, else by ; tab or |."""
    return _read_table(stream, on_bad, "")


def read_tsv(
    stream: BinaryIO, on_bad: Callable[[ValueError], None]
) -> Generator[tuple[int, dict[str, str]], None, None]:
    """Read row by row, each with its line. Columns are separated by tabs."""
    return _read_table(stream, on_bad, "\t")


def _read_table(
    stream: BinaryIO, on_bad: Callable[[ValueError], None], delimiter: str
) -> Generator[tuple[int, dict[str, str]], None, None]:
    csv.field_size_limit(sys.maxsize)  # the default limit, 128 KiB, is global
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
    lines = _utf8(text)
    head = list(_through_header(lines))
    rows = csv.reader(chain(head, lines), delimiter=delimiter or _delimiter_of(head), strict=True)
    header: list[str] = []
    try:
        for row in filter(None, _parsed(rows, on_bad)):
            if not header:
                header = row
                _require_unique(header, rows.line_num)
            elif len(row) == len(header):
                yield rows.line_num, dict(zip(header, row, strict=True))
            else:
                on_bad(_misfit(row, header, rows.line_num))
    finally:
        text.detach()


def _parsed(rows: Any, on_bad: Callable[[ValueError], None]) -> Iterator[list[str]]:
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:  # the next line begins a row again
            on_bad(ValueError(f"line {rows.line_num}: {error}"))
        else:
            yield row


def _through_header(lines: Iterator[str]) -> Iterator[str]:
    """Yield lines up to the first that is not blank."""
    for line in lines:
        yield line
        if line.strip("\r\n"):
            return


def _delimiter_of(head: Sequence[str]) -> str:
    """Return the most frequent separator outside quotes; commas win, since names may contain a semicolon."""
    bare = re.sub(r'"[^"]*"?', "", head[-1] if head else "")
    if "," in bare:
        return ","
    found = max(_OTHER_DELIMITERS, key=bare.count)
    return found if found in bare else ","


def _misfit(row: Sequence[str], header: Sequence[str], line: int) -> ValueError:
    return ValueError(f"line {line}: {len(row)} field{'s' * (len(row) != 1)}, but the header has {len(header)}")


def count_csv(stream: BinaryIO) -> int:
    """Count the rows below the header; reading reports what is wrong with them."""
    csv.field_size_limit(sys.maxsize)
    text = io.TextIOWrapper(stream, encoding="latin-1", newline="")
    found = sum(1 for row in csv.reader(text) if row)
    text.detach()
    return max(0, found - 1)


def _require_unique(header: list[str], line: int) -> None:
    if len(set(header)) < len(header):
        raise ValueError(f"line {line}: the header has a column twice: {', '.join(header)}")


def _utf8(lines: Iterable[str]) -> Iterator[str]:
    """Report bytes that are not UTF-8 with their line, not with the whole chunk that was read."""
    for number, line in enumerate(lines, start=1):
        if not line.isascii() and (bad := _NOT_UTF8.search(line)):
            raise ValueError(f"line {number}, column {bad.start() + 1}: not UTF-8; save the file in that encoding")
        yield line


class CsvWriter:
    """Writes a flat table."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._waiting = WaitingRows()

    def write(self, row: Row) -> None:
        """Take a row."""
        self._waiting.add(row)

    def finish(self) -> None:
        """Write header and rows."""
        text = io.TextIOWrapper(self._stream, encoding="utf-8", newline="", errors="backslashreplace")
        with closing(self._waiting):
            table = csv.DictWriter(text, self._waiting.columns(), extrasaction="ignore")
            table.writeheader()
            table.writerows({name: _cell(value) for name, value in row.items()} for row in self._waiting)
        text.flush()
        text.detach()

    def discard(self) -> None:
        """Delete temporary data."""
        self._waiting.close()


def _cell(value: Any) -> Any:
    if isinstance(value, bool | dict | list):
        return to_json(value)
    if not isinstance(value, str):
        return value
    if _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return "'" + value  # a spreadsheet would run it as a formula; model output is data
    return value
