"""Parquet files, read and written with pyarrow (extra ``parquet``)."""

from __future__ import annotations

import io
from collections.abc import Callable, Generator
from importlib import import_module
from typing import Any, BinaryIO

from graphmill.core.errors import UsageError

_BATCH_ROWS = 1000


def read_parquet(
    stream: BinaryIO,
    on_bad: Callable[[ValueError], None],  # noqa: ARG001  a damaged part is no single row
) -> Generator[tuple[int, dict[str, Any]], None, None]:
    """Read row by row; memory holds one row group."""
    number = 0
    for batch in _opened(stream).iter_batches(batch_size=_BATCH_ROWS):
        for row in batch.to_pylist():
            number += 1
            yield number, row


def count_parquet(stream: BinaryIO) -> int:
    """Return the number of rows that the file's footer tells."""
    found: int = _opened(stream).metadata.num_rows
    return found


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
