"""Fingerprints: short hashes that show whether a function or a value has changed, and what the difference is called."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache, partial
from hashlib import blake2b
from operator import attrgetter, itemgetter, methodcaller
from types import CodeType, EllipsisType, FunctionType, MethodType
from typing import Any

ORDER = "order"
_BYTES = 8
_PLAIN = (str, bytes, float, complex, bool, type(None), EllipsisType)
_CONTAINERS = (list, tuple, set, frozenset, dict, Enum)
_GETTERS = (itemgetter, attrgetter, methodcaller)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def function_fingerprint(function: Any, version: str | None = None) -> str:
    """Hash a function's name and source, and the version its author gives it.

    Comments, layout, docstrings and the module do not count. Decorators do, and so do functions that it wraps or closes
    over. Helpers that it calls and values that it closes over are not seen: ``version`` is for those. A partial counts
    with its plain arguments, an object with its class and ``__call__``, a built-in with its name.

    Python upgrades change nothing, except for a lambda or a function without source: these count with their compiled
    code, since two lambdas on one line cannot be told apart by their source.
    """
    try:
        described = _describe(function, [])
    except Exception:  # noqa: BLE001  odd callables raise anything when they are looked at
        described = type(function).__qualname__
    return _hash([described, version])


def value_fingerprint(value: Any) -> str:
    """Hash a value: plain data by content, in any order of keys; functions as above; anything else by its type."""
    return _hash(_describe(value, []))


def known_fingerprint(function: Callable[..., Any]) -> str:
    """Return ``function_fingerprint(function)`` from a cache."""
    try:
        return _known(function)
    except TypeError:  # not hashable
        return function_fingerprint(function)


@lru_cache(maxsize=1000)
def _known(function: Callable[..., Any]) -> str:
    return function_fingerprint(function)


def callable_name(function: Any) -> str:
    """Return a function's qualified name; for a partial that of its function, for an object that of its class."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", None)
    if isinstance(name, str):
        return name
    return type(function).__qualname__


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """List the parts whose fingerprints differ, in words."""
    changes = [f"{part} changed" for part in now if part in before and part != ORDER and before[part] != now[part]]
    changes += [f"{part} is new" for part in now if part not in before and part != ORDER]
    changes += [f"{part} is gone" for part in before if part not in now and part != ORDER]
    # New and missing nodes change the order by themselves.
    if before.get(ORDER) != now.get(ORDER) and _nodes(before) == _nodes(now):
        changes.append("the order of the nodes changed")
    return changes


def _nodes(parts: Mapping[str, str]) -> set[str]:
    return {part for part in parts if part.startswith("node ")}


def _hash(described: Any) -> str:
    return blake2b(json.dumps(described).encode(), digest_size=_BYTES).hexdigest()


def _describe(value: Any, seen: list[Any]) -> Any:
    """Describe a value as JSON that is the same in every process."""
    if type(value) in _PLAIN:
        return ascii(value)
    if type(value) is int:
        return hex(value)  # the decimal form has a limit
    if isinstance(value, _CONTAINERS) or (is_dataclass(value) and not isinstance(value, type)):
        return [type(value).__qualname__, *_entries(value, seen)]
    if isinstance(value, CodeType):
        names = (value.co_names, value.co_varnames, value.co_freevars, value.co_flags, value.co_argcount)
        return [value.co_code.hex(), value.co_exceptiontable.hex(), repr(names), _describe(value.co_consts, seen)]
    if callable(value):
        return _describe_callable(value, seen)
    return type(value).__qualname__


def _entries(value: Any, seen: list[Any]) -> list[Any]:
    if isinstance(value, Enum):
        return [value.name]
    if isinstance(value, dict):
        return sorted(json.dumps([_describe(key, seen), _describe(entry, seen)]) for key, entry in value.items())
    if isinstance(value, list | tuple):
        return [_describe(entry, seen) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted(json.dumps(_describe(entry, seen)) for entry in value)
    return [[field.name, _describe(getattr(value, field.name), seen)] for field in fields(value)]


def _describe_callable(function: Any, seen: list[Any]) -> Any:
    for number, known in enumerate(seen):
        if known is function:  # it closes over itself
            return number
    seen.append(function)
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)  # the latter of numpy's
    described: list[Any] = [type(function).__qualname__, name if isinstance(name, str) else None]
    if isinstance(function, partial):
        described += [_describe(part, seen) for part in (function.func, function.args, function.keywords)]
    elif isinstance(function, _GETTERS):
        described.append(_describe(function.__reduce__(), seen))
    elif isinstance(function, MethodType):
        owner = function.__self__ if isinstance(function.__self__, type) else type(function.__self__)
        described += [owner.__qualname__, _describe(function.__func__, seen)]
    elif isinstance(function, FunctionType):
        defaults = function.__defaults__, function.__kwdefaults__
        described.append(_source(function, function.__code__) or _describe([function.__code__, *defaults], seen))
    elif isinstance(function, type):
        described.append(_source(function, function) or function.__module__)
    elif isinstance(call := type(function).__call__, FunctionType):
        described.append(_describe(call, seen))
    return described + [_describe(inner, seen) for inner in _inner_functions(function)]


def _inner_functions(function: Any) -> list[Any]:
    """List what a decorator hides, whether or not it uses functools.wraps."""
    # Not by getattr: an object may have any attribute, and each time another one.
    inner = []
    if hasattr(function, "__dict__"):
        inner.append(vars(function).get("__wrapped__"))
    for cell in getattr(function, "__closure__", None) or ():
        try:
            inner.append(cell.cell_contents)
        except ValueError:  # a variable that is not set yet
            continue
    return [each for each in inner if isinstance(each, FunctionType | MethodType | partial)]


def _source(function: Any, has_source: Any) -> str | None:
    """Return the syntax tree of a definition as text; None if there is no source.

    A function's source is found by its code: inspect would return that of the function it wraps.
    """
    try:
        text = inspect.getsource(has_source)
        # An indented definition is put into a block. Dedenting would change the multi-line strings in it.
        tree = ast.parse(f"if True:\n{text}" if text[0].isspace() else text)
        definition = next((node for node in ast.walk(tree) if isinstance(node, _DEFINITIONS)), None)
        name = getattr(has_source, "co_name", None) or function.__name__
    except Exception:  # noqa: BLE001  no file, a file that was changed, and more kinds of each than can be listed
        return None
    # Another name is found for a lambda, and where the file was changed after it was imported.
    if definition is None or definition.name != name:
        return None
    return _dump(definition)


def _dump(part: Any) -> str:
    """Write a tree like ast.dump, but the same in every version of Python: no empty fields, no docstrings, in ASCII."""
    if isinstance(part, list):
        return f"[{','.join(map(_dump, part))}]"
    if not isinstance(part, ast.AST):
        return str(_describe(part, []))
    if isinstance(part, _DEFINITIONS) and ast.get_docstring(part, clean=False) is not None:
        part.body = part.body[1:] or [ast.Pass()]
    if isinstance(part, ast.JoinedStr):  # Python 3.12 leaves empty texts in f-strings
        part.values = [each for each in part.values if not (isinstance(each, ast.Constant) and each.value == "")]
    filled = [f"{name}={_dump(field)}" for name, field in ast.iter_fields(part) if field is not None and field != []]
    return f"{type(part).__name__}({','.join(filled)})"
