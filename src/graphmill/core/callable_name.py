"""What records and messages call a function."""

from __future__ import annotations

from functools import partial
from typing import Any


def callable_name(function: Any) -> str:
    """Give a function's qualified name, that of a partial's function, or that of an object's class."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else type(function).__qualname__
