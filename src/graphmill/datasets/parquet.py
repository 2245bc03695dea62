"""Parquet files, read and written with pyarrow (extra ``parquet``)."""

from __future__ import annotations

import io
import re
from base64 import b64encode
from collections.abc import Callable, Generator
from contextlib import closing
from datetime import date, time, timedelta
from decimal import Decimal
from importlib import import_module
from itertools import islice
from typing import Any, BinaryIO

from graphmill.core.errors import UsageError
from graphmill.core.json import to_json
from graphmill.datasets.row import Row, WaitingRows

_BATCH_ROWS = 1000
_NOT_JSON = re.compile(r"binary|timestamp|date|time|decimal|duration")


def read_parquet(
    stream: BinaryIO,
    on_bad: Callable[[ValueError], None],  # noqa: ARG001  a damaged part is more than one row
) -> Generator[tuple[int, dict[str, Any]], None, None]:
    """Read row by row; memory holds one row group."""
    number = 0
    table = _opened(stream)
    has_others = _NOT_JSON.search(str(table.schema_arrow)) is not None
    for group in range(table.num_row_groups):  # one by one: what is not wanted is not fetched
        for batch in table.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group]):
            for row in batch.to_pylist():
                number += 1
                yield number, _plain(row) if has_others else row


class ParquetWriter:
    """Writes a flat table. A column has one type if all its values share it; else it holds JSON text."""

    def __init__(self, stream: BinaryIO) -> None:
        self._library = pyarrow_parquet()
        self._stream = stream
        self._waiting = WaitingRows()
        self._kinds: dict[str, set[str]] = {}

    def write(self, row: Row) -> None:
        """Take a row."""
        for name, value in self._waiting.add(row).items():
            self._kinds.setdefault(name, set()).add(_kind(value))

    def finish(self) -> None:
        """Write all rows."""
        arrow = import_module("pyarrow")
        with closing(self._waiting):
            types = {name: _column_type(self._kinds.get(name, set())) for name in self._waiting.columns()}
            schema = arrow.schema([(name, getattr(arrow, kind)()) for name, kind in types.items()])
            with self._library.ParquetWriter(self._stream, schema) as table:
                rows = iter(self._waiting)
                while batch := [_cells(row, types) for row in islice(rows, _BATCH_ROWS)]:
                    table.write_batch(arrow.RecordBatch.from_pylist(batch, schema=schema))

    def discard(self) -> None:
        """Delete temporary data."""
        self._waiting.close()


def _kind(value: Any) -> str:
    """Name the type of a value. A wide integer is none as a floating-point number, a huge one is none of 64 bits."""
    kind = type(value).__name__
    if kind != "int" or abs(value) <= 2**53:
        return kind
    return "wide" if -(2**63) <= value < 2**63 else "huge"


def _column_type(kinds: set[str]) -> str:
    found = kinds - {"NoneType"}
    if found == {"bool"}:
        return "bool_"
    if found and found <= {"int", "wide"}:
        return "int64"
    if found and found <= {"int", "float"}:
        return "float64"
    return "string"


def _cells(row: Row, types: dict[str, str]) -> Row:
    return {name: _text(row.get(name)) if kind == "string" else row.get(name) for name, kind in types.items()}


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else to_json(value)
    return text.encode(errors="backslashreplace").decode()  # half of a surrogate pair is not text in Parquet


def count_parquet(stream: BinaryIO) -> int:
    """Return the number of rows that the file's footer tells."""
    found: int = _opened(stream).metadata.num_rows
    return found


def _plain(value: Any) -> Any:
    """Make Parquet's own types JSON: bytes become text (or base64), times and decimals text."""
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return b64encode(value).decode()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    return value


def _opened(stream: BinaryIO) -> Any:
    if not stream.seekable():  # its table of contents is at its end
        stream = io.BytesIO(stream.read())
    return pyarrow_parquet().ParquetFile(stream)


def pyarrow_parquet() -> Any:
    """Import pyarrow's module for Parquet; UsageError says how to install it."""
    try:
        return import_module("pyarrow.parquet")
    except ImportError:
        raise UsageError("Parquet files need pyarrow: pip install 'graphmill[parquet]'") from None
