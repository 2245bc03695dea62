"""The python node: a function named by module and name, called with its inputs as keyword arguments."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from graphmill.core.errors import Permanent
from graphmill.core.fingerprint import function_fingerprint
from graphmill.core.fresh import fresh
from graphmill.core.names import suggestion
from graphmill.engine.workers import call
from graphmill.graph.lookup import references
from graphmill.graph.node import Step, require_keys


class PythonNode:
    """Calls an async function on the loop, a plain one in a thread; its value is the node's ``result``."""

    def prepare(self, params: Mapping[str, Any]) -> Step:
        """Import the function now, so that a wrong name is found before the first item."""
        require_keys(params, known=("function", "inputs"), required=("function",))
        inputs = params.get("inputs", {})
        if not isinstance(inputs, Mapping) and not (isinstance(inputs, str) and references(inputs)):
            raise ValueError("inputs is a mapping from parameter names to values")
        function = find_function(params["function"])
        if isinstance(inputs, Mapping):
            _require_fit(function, inputs)
        return partial(_call, function)

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Give the function's."""
        return function_fingerprint(find_function(params["function"]))


async def _call(function: Callable[..., Any], params: Mapping[str, Any]) -> Any:
    inputs = params.get("inputs", {})
    if not isinstance(inputs, Mapping):
        raise Permanent(f"inputs is a mapping from parameter names to values, not {type(inputs).__name__}")
    return {"result": await call(function, **fresh(dict(inputs)))}


def _require_fit(function: Callable[..., Any], inputs: Mapping[str, Any]) -> None:
    """Refuse inputs that the function does not take, or that it lacks, before the first item."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins do not tell
        return
    try:
        signature.bind(**inputs)
    except TypeError as error:
        raise ValueError(f"the inputs do not fit {getattr(function, '__name__', function)}{signature}: {error}") from error


def find_function(name: object) -> Callable[..., Any]:
    """Import ``module:name``; ValueError says what was not found."""
    module_name, colon, path = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not (module_name and colon and path) or not re.fullmatch(r"[^\W\d]\w*(?:\.\w+)*", module_name):
        raise ValueError(f"function is written module:name, not {name!r}")
    found: Any = _import(module_name)
    for part in path.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{module_name} has no {part!r}{suggestion(part, dir(found))}")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"{name} is not a function but {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def _import(module_name: str) -> Any:
    here = os.getcwd()  # noqa: PTH109  sys.path holds text
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does: a workflow's functions stand beside it in the project
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"can not import {module_name!r}: {error}; modules are looked for in {here} and among the installed packages"
        ) from error
    except (Exception, SystemExit) as error:  # a script without a __main__ guard leaves while it is imported
        raise ValueError(f"importing {module_name!r} raised {type(error).__name__}: {error}") from error
