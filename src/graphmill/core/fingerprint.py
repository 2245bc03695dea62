"""Fingerprints: short hashes that tell whether a function, or a value, is still what it was."""

from __future__ import annotations

import ast
import inspect
import json
import linecache
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache, partial
from hashlib import blake2b
from operator import attrgetter, itemgetter, methodcaller
from types import CodeType, EllipsisType, FunctionType, MethodType
from typing import Any

_BYTES = 8
_PLAIN = (str, bytes, float, complex, bool, type(None), EllipsisType)
_HOLDERS = (list, tuple, set, frozenset, dict, Enum)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def function_fingerprint(function: Any, version: str | None = None) -> str:
    """Hash what a function is: its name, its normalised source, and a version if its author gives one.

    Comments, layout, docstrings and the module do not count; decorators do, and so do functions that it wraps or closes over.
    Helpers that it calls and values that it closes over are not seen: ``version`` is for those.

    A lambda goes by its compiled code, as two on one line can not be told apart by their source, and so does a function
    without source; that changes with Python's version, and nothing else here does. A partial goes by its function and its
    plain arguments (enums and dataclasses included), an object by its class and ``__call__`` but not by what it holds, a
    built-in by its name.
    """
    try:
        described = _described(function, [])
    except Exception:  # noqa: BLE001  odd callables raise anything when they are looked at
        described = ["odd", _full_name(type(function))]
    return _hash([described, version])


def value_fingerprint(value: Any) -> str:
    """Hash a value: what is plain by what it is, whatever the order of keys; functions as above, all else by type only."""
    return _hash(_value(value, []))


def _hash(described: Any) -> str:
    return blake2b(json.dumps(described).encode(), digest_size=_BYTES).hexdigest()


def known_fingerprint(function: Callable[..., Any]) -> str:
    """Give the same at less cost where it is asked for often."""
    try:
        return _known(function)
    except TypeError:  # it can not be hashed
        return function_fingerprint(function)


@lru_cache(maxsize=1000)
def _known(function: Callable[..., Any]) -> str:
    return function_fingerprint(function)


def _described(function: Any, seen: list[Any]) -> Any:
    number = next((number for number, known in enumerate(seen) if known is function), None)
    if number is not None:  # a function may close over itself
        return ["again", number]
    seen.append(function)
    if isinstance(function, partial):
        return [
            "partial",
            _described(function.func, seen),
            _value(function.args, seen),
            _value(function.keywords, seen),
        ]
    if isinstance(function, itemgetter | attrgetter | methodcaller):
        return _getter(function, seen)
    if inspect.ismethod(function):
        return _method(function, seen)
    if isinstance(function, FunctionType):
        code = _source(function) or [_compiled(function.__code__, seen), *_defaults(function, seen)]
        return ["function", function.__qualname__, code, _inner(function, seen)]
    if isinstance(function, type):
        return ["class", function.__qualname__, _source(function) or _full_name(function)]
    return _object(function, seen)


def _getter(getter: Any, seen: list[Any]) -> Any:
    made: Any = getter.__reduce__()
    held = (made[0].args, made[0].keywords) if isinstance(made[0], partial) else made[1]
    return ["getter", _full_name(type(getter)), _value(held, seen)]


def _method(method: MethodType, seen: list[Any]) -> Any:
    owner = method.__self__ if isinstance(method.__self__, type) else type(method.__self__)
    return ["method", owner.__qualname__, _described(method.__func__, seen)]


def _object(function: Any, seen: list[Any]) -> Any:
    if inspect.isroutine(function) and not hasattr(function, "__wrapped__"):  # a cached function is no built-in
        return ["built-in", _full_name(function)]
    name = getattr(function, "__name__", None)  # numpy's functions are objects of one class, each with its name
    called = _described(type(function).__call__, seen)
    return [
        "object",
        type(function).__qualname__,
        name if isinstance(name, str) else None,
        called,
        _inner(function, seen),
    ]


def _inner(function: Any, seen: list[Any]) -> Any:
    """Describe what a decorator hides, whether or not it uses functools.wraps."""
    # Not by getattr: an object may answer to any name, and each time with something new.
    held = [vars(function).get("__wrapped__")] if hasattr(function, "__dict__") else []
    for cell in getattr(function, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # a variable that is not set yet
            continue
    return [
        _described(each, seen) for each in held if isinstance(each, FunctionType | partial) or inspect.ismethod(each)
    ]


def _source(thing: FunctionType | type) -> str | None:
    """Give the syntax tree of a definition as text, without positions and docstrings; None if it can not be had."""
    try:
        text = inspect.getsource(thing) if isinstance(thing, type) else _lines(thing)
        # An indented definition is given a place to stand in. Dedenting would change the texts that go over lines in it.
        tree = ast.parse(f"if True:\n{text}" if text[0].isspace() else text)
        definition = next((node for node in ast.walk(tree) if isinstance(node, _DEFINITIONS)), None)
        name = thing.__name__ if isinstance(thing, type) else thing.__code__.co_name
        # Another name is there for a lambda, and when the file was changed after it was imported.
        return _dumped(definition) if definition is not None and definition.name == name else None
    except Exception:  # noqa: BLE001  no file, a file that was changed, and more kinds of each than can be listed
        return None


def _lines(function: FunctionType) -> str:
    """Read a function's own lines: inspect.getsource gives those of what it wraps, and looks through all modules for them."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    return "".join(
        inspect.getblock(linecache.getlines(code.co_filename, function.__globals__)[code.co_firstlineno - 1 :])
    )


def _dumped(part: Any) -> str:
    """Write a tree like ast.dump, but the same in every version of Python: without what is empty, and in ASCII."""
    if isinstance(part, list):
        return f"[{','.join(map(_dumped, part))}]"
    if not isinstance(part, ast.AST):
        return str(_value(part, []))
    filled = [
        f"{name}={_dumped(value)}"
        for name, value in ast.iter_fields(_normal(part))
        if value is not None and value != []
    ]
    return f"{type(part).__name__}({','.join(filled)})"


def _normal(node: ast.AST) -> ast.AST:
    """Take a docstring out of a definition, and out of an f-string the empty texts that Python 3.12 leaves in it."""
    if isinstance(node, _DEFINITIONS) and ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:] or [ast.Pass()]
    if isinstance(node, ast.JoinedStr):
        node.values = [each for each in node.values if not (isinstance(each, ast.Constant) and each.value == "")]
    return node


def _compiled(code: CodeType, seen: list[Any]) -> Any:
    counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
    return [code.co_code.hex(), code.co_exceptiontable.hex(), counts, names, _value(code.co_consts, seen)]


def _defaults(function: FunctionType, seen: list[Any]) -> Any:
    return _value(function.__defaults__, seen), _value(function.__kwdefaults__, seen)


def _value(value: Any, seen: list[Any]) -> Any:
    """Describe a value: what is plain as it is, in the same order in every process; of anything else only the type."""
    if type(value) in _PLAIN:
        return ascii(value)
    if type(value) is int:
        return hex(value)  # the decimal form has a limit
    if isinstance(value, CodeType):
        return _compiled(value, seen)
    if isinstance(value, _HOLDERS) or (is_dataclass(value) and not isinstance(value, type)):
        return [type(value).__qualname__, *_parts(value, seen)]
    return _described(value, seen) if callable(value) else type(value).__qualname__


def _parts(value: Any, seen: list[Any]) -> list[Any]:
    if isinstance(value, Enum):
        return [value.name]
    if is_dataclass(value):
        return [[field.name, _value(getattr(value, field.name), seen)] for field in fields(value)]
    if isinstance(value, dict):
        return sorted(json.dumps([_value(key, seen), _value(entry, seen)]) for key, entry in value.items())
    parts = [_value(entry, seen) for entry in value]
    return parts if isinstance(value, list | tuple) else sorted(map(json.dumps, parts))


def _full_name(thing: Any) -> str:
    module = getattr(thing, "__module__", None) or getattr(getattr(thing, "__objclass__", None), "__module__", None)
    return f"{module}.{getattr(thing, '__qualname__', None)}"


ORDER = "order"


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Tell in words what has changed; nothing, if nothing has."""
    gone = [f"{part} is gone" for part in before if part not in now and part != ORDER]
    new = [f"{part} is new" for part in now if part not in before and part != ORDER]
    other = [f"{part} changed" for part in now if part in before and part != ORDER and before[part] != now[part]]
    # Nodes that come or go change the order by themselves.
    is_reordered = before.get(ORDER) != now.get(ORDER) and _nodes(before) == _nodes(now)
    return [*other, *new, *gone, *(["the order of the nodes changed"] if is_reordered else [])]


def _nodes(parts: Mapping[str, str]) -> set[str]:
    return {part for part in parts if part.startswith("node ")}


def callable_name(function: Any) -> str:
    """Give a function's qualified name, that of a partial's function, or that of an object's class."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else type(function).__qualname__
