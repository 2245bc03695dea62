"""YAML: one list of items, read whole."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, BinaryIO

from graphmill.core.yaml import from_yaml
from graphmill.datasets.json_array import require_array


def read(stream: BinaryIO) -> Generator[Any, None, None]:
    """Read the list; an empty document has no items."""
    data = from_yaml(stream.read())
    yield from require_array([] if data is None else data)
