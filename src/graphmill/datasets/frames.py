"""Results as a pandas data frame or an Arrow table: one column per field, as in CSV, with values as they are."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.core.json import to_json
from graphmill.core.result import Result
from graphmill.datasets.row import FlatColumns, row_of


def pandas_frame(results: Iterable[Result]) -> Any:
    """Return a data frame with a row per result; UsageError without pandas."""
    pandas = _imported("pandas", "a data frame needs pandas: pip install pandas")
    return pandas.DataFrame(_columns(results))


def arrow_table(results: Iterable[Result]) -> Any:
    """Return an Arrow table with a row per result; a column of mixed types holds JSON text. Needs pyarrow."""
    pyarrow = _imported("pyarrow", "an Arrow table needs pyarrow: pip install 'graphmill[parquet]'")
    return pyarrow.table({name: _arrow_column(pyarrow, values) for name, values in _columns(results).items()})


def _columns(results: Iterable[Result]) -> dict[str, list[Any]]:
    columns = FlatColumns()
    rows = [columns.flat(row_of(result)) for result in results]
    return {name: [row.get(name) for row in rows] for name in columns.names()}


def _arrow_column(pyarrow: Any, values: list[Any]) -> Any:
    try:
        return pyarrow.array([None if value == {} else value for value in values])
    except pyarrow.ArrowException:  # values of different types, or of one that Arrow does not have
        return pyarrow.array([None if value is None else to_json(value) for value in values])


def _imported(name: str, message: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise UsageError(message) from None
