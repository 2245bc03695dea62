"""Functions by module and name: that is how a worker process gets them."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from graphmill.core.errors import UsageError

_REMEDY = (
    "with isolation='process' a function is imported by its name: write it with `def` in a module and import it from "
    "there"
)


def require_importable(function: Any) -> tuple[str, str]:
    """Return a function's module and qualified name; refuse a function that can't be imported by them."""
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None) or getattr(
        getattr(function, "__objclass__", None), "__module__", None
    )
    if not isinstance(name, str) or not isinstance(module, str):
        raise UsageError(f"{function!r:.80} has no name of its own (a partial or a workflow, for example); {_REMEDY}")
    if module == "__main__":
        raise UsageError(f"{name} is defined in the main program, which workers don't run; {_REMEDY}")
    if "<lambda>" in name:
        raise UsageError(f"a lambda (in {module}) can't be imported; {_REMEDY}")
    if "<locals>" in name:
        raise UsageError(f"{name.replace('.<locals>', '')} (in {module}) is defined inside a function; {_REMEDY}")
    if not _is_found(function, module, name):
        raise UsageError(f"{module}.{name} is not {function!r:.80}; {_REMEDY}")
    return module, name


def import_name(module: str, name: str) -> Any:
    """Import a name from a module."""
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _is_found(function: Any, module: str, name: str) -> bool:
    try:
        found = import_name(module, name)
    except Exception:  # noqa: BLE001  importing runs user code
        return False
    return found is function or (inspect.ismethod(function) and found == function)  # a class method is bound each time
