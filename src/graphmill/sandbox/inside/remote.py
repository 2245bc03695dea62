"""Objects of another process: a peer holds its own, and uses those of the other by reference.

The tests of a program run in a process of their own. What the program returns reaches them as data; an object that is
no data as a ``Remote``, which can be passed back, called and asked for attributes. Where the tests expect data, a
Remote equals nothing, so a program cannot answer with an object that is equal to everything.
"""

from __future__ import annotations

import builtins
import importlib
import operator
import socket
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from graphmill.sandbox.inside.wire import ConnectionEndedError, pack, receive, send, unpack

_BETWEEN = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
    "lt",
    "le",
    "gt",
    "ge",
]
_OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in [*_BETWEEN, "eq", "getitem", "setitem", "delitem", "neg", "pos"]},
    **{each.__name__: each for each in (len, iter, next, str, repr, bool, int, float, abs, getattr, setattr, delattr)},
    "isinstance": isinstance,
    "issubclass": issubclass,
    "call": lambda function, *args, **kwargs: function(*args, **kwargs),
    "enter": lambda manager: manager.__enter__(),
    "exit": lambda manager: manager.__exit__(None, None, None),
}
_STANDARD = frozenset(
    [
        "bisect",
        "cmath",
        "collections",
        "copy",
        "datetime",
        "decimal",
        "fractions",
        "functools",
        "heapq",
        "itertools",
        "json",
        "math",
        "operator",
        "random",
        "re",
        "statistics",
        "string",
    ]
)
_MUTABLE = (list, dict, set, bytearray)
_GUEST_OPERATIONS = {"call", "iter", "next", "len", "getitem", "getattr", "setattr"}
_FRAME_NAMES = ("_", "f_", "gi_", "tb_", "cr_", "ag_", "co_", "func_")


class Peer:
    """One end of the connection. ``offered`` are the names that the other side may ask for.

    A peer without them is that of the tests: the program may only use what it is passed, such as a function to call,
    and reach nothing through that.
    """

    def __init__(self, connection: socket.socket, offered: dict[str, Any] | None) -> None:
        self.has_ended = False
        self._connection = connection
        self._offered = offered
        self._objects: list[Any] = []
        self._exceptions: dict[str, type[BaseException]] = {}

    def serve(self) -> None:
        """Do what the other side asks for, until it ends."""
        while True:
            self._answer(receive(self._connection))

    def fetch(self, name: str, *, is_strict: bool) -> Any:
        """Return what the other side calls by this name; NameError if it has none."""
        found = self.ask("global", [name], {}, is_strict=is_strict)
        if type(found) is not Remote:
            return found
        kind, *names = self.ask("kind", [found], {}, is_strict=True) or [""]
        if kind == "exception":
            return self._exception(names)
        if kind == "standard":
            return _own_copy(name, *names[:2]) or found
        return found

    def ask(self, what: str, args: list[Any], kwargs: dict[str, Any], *, is_strict: bool) -> Any:
        """Let the other side do something, and return what it gives or raise what it raises.

        A mutable argument that is changed there is changed here too. A strict reference is what a result must not be:
        the tests compute with data only.
        """
        try:
            self._send([what, self._pack(args), self._pack(kwargs)])
            while True:
                message = receive(self._connection)
                if message[0] in ("value", "error"):
                    break
                self._answer(message)
        except ConnectionEndedError:
            self.has_ended = True
            raise
        except (KeyError, TypeError, ValueError, IndexError, RecursionError) as error:  # not a message of ours
            self.has_ended = True
            raise ConnectionEndedError from error
        return self._outcome(message, args, is_strict)

    # -- asking

    def _outcome(self, message: Any, args: list[Any], is_strict: bool) -> Any:  # noqa: FBT001
        def find(number: Any) -> Any:
            if number[0] == "yours":
                return self._objects[number[1]]
            return Remote(self, number[1], is_strict)

        try:
            if message[0] == "error":
                raise self._raised(*message[1:])
            value, changed = unpack(message[1], find), message[2]
            for place, content in changed:
                _replace(args[place], unpack(content, find))
        except (KeyError, TypeError, ValueError, IndexError, ArithmeticError) as error:
            if getattr(error, "is_from_program", False):
                raise
            self.has_ended = True
            raise ConnectionEndedError from error
        return value

    def _raised(self, names: list[str], args: Any, text: str) -> BaseException:
        kind = next((self._exceptions[name] for name in names if name in self._exceptions), None)
        if kind is None:
            kind = next((each for name in names if (each := _builtin_exception(name)) is not None), Exception)
        try:
            error = kind(*unpack(args, lambda _: "…"))
        except Exception:  # noqa: BLE001  an exception may want other arguments
            error = Exception(text)
        error.is_from_program = True  # type: ignore[attr-defined]
        error.text = str(text)  # type: ignore[attr-defined]
        return error

    def _exception(self, names: list[str]) -> type[BaseException]:
        base = next((each for name in names[1:] if (each := _builtin_exception(name)) is not None), Exception)
        return self._exceptions.setdefault(names[0], type(names[0], (base,), {}))

    def _send(self, message: Any) -> None:
        send(self._connection, message)

    def _pack(self, value: Any) -> Any:
        return pack(value, self._refer)

    def _refer(self, value: Any) -> list[Any]:
        if type(value) is Remote:
            return ["yours", object.__getattribute__(value, "_number")]
        self._objects.append(value)
        return ["mine", len(self._objects) - 1]

    # -- answering

    def _answer(self, message: Any) -> None:
        what, args, kwargs = message
        try:
            given = [self._given(each) for each in args]
            before = {place: args[place] for place, each in enumerate(given) if type(each) in _MUTABLE}
            named = {name: self._given(each) for name, each in self._given(kwargs).items()}
            value = self._pack(self._do(what, given, named))
            changed = [[place, now] for place, was in before.items() if (now := self._pack(given[place])) != was]
            self._send(["value", value, changed])
        except ConnectionEndedError:
            raise
        except BaseException as error:  # noqa: BLE001  whatever a program raises is its answer
            self._send(["error", *self._described(error)])

    def _given(self, data: Any) -> Any:
        is_strict = self._offered is None

        def find(number: Any) -> Any:
            return self._objects[number[1]] if number[0] == "yours" else Remote(self, number[1], is_strict)

        return unpack(data, find)

    def _do(self, what: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self._offered is None:
            _require_harmless(what, args)
        elif what == "global":
            if args[0] not in self._offered:
                raise NameError(f"the program does not define {args[0]!r}")
            return self._offered[args[0]]
        if what == "kind":
            return _kind_of(args[0])
        return _OPERATIONS[what](*args, **kwargs)

    def _described(self, error: BaseException) -> list[Any]:
        names = [each.__name__ for each in type(error).__mro__]
        try:
            args = self._pack([each for each in error.args if isinstance(each, str | int | float | None)])
            text = "".join(traceback.format_exception_only(error)).strip()[:2000]
        except BaseException:  # noqa: BLE001  its __str__ is the program's
            args, text = [], names[0]
        return [names, args, text]


class Remote:
    """An object of the other process."""

    __slots__ = ("_is_strict", "_number", "_peer")

    def __init__(self, peer: Peer, number: int, is_strict: bool = False) -> None:  # noqa: FBT001, FBT002
        object.__setattr__(self, "_peer", peer)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_is_strict", is_strict)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it there."""
        return _do(self, "call", *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__array"):  # by which numpy would read memory where the program says
            raise AttributeError(name)
        return _do(self, "getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        _do(self, "setattr", name, value)

    def __delattr__(self, name: str) -> None:
        _do(self, "delattr", name)

    def __eq__(self, other: object) -> bool:
        return type(other) is Remote and _do(self, "eq", other) is True

    def __hash__(self) -> int:
        return hash(object.__getattribute__(self, "_number"))

    def __instancecheck__(self, value: object) -> bool:
        return type(value) is Remote and _do(value, "isinstance", self) is True

    def __subclasscheck__(self, kind: object) -> bool:
        return type(kind) is Remote and _do(kind, "issubclass", self) is True

    def __exit__(self, *_: object) -> None:
        _do(self, "exit")


def _do(remote: Remote, what: str, *args: Any, **kwargs: Any) -> Any:
    peer = object.__getattribute__(remote, "_peer")
    is_strict = object.__getattribute__(remote, "_is_strict")
    return peer.ask(what, [remote, *args], kwargs, is_strict=is_strict)


def _define(method: str, what: str) -> None:
    def operation(self: Remote, *args: Any) -> Any:
        if what in _BETWEEN and object.__getattribute__(self, "_is_strict") and type(args[0]) is not Remote:
            return NotImplemented  # it would learn what is expected, and could return that
        return _do(self, what, *args)

    setattr(Remote, method, operation)


for _name in (*_BETWEEN, "getitem", "setitem", "delitem", "neg", "pos", "len", "iter", "next", "str", "repr"):
    _define(f"__{_name.rstrip('_')}__", _name)
for _name in ("bool", "int", "float", "abs", "enter"):
    _define(f"__{_name}__", _name)


def _kind_of(found: Any) -> list[str]:
    """Return what the tests should know of an object: that it is an exception, or from the standard library."""
    if isinstance(found, type) and issubclass(found, BaseException):
        return ["exception", *(each.__name__ for each in found.__mro__)]
    if isinstance(found, ModuleType):
        return ["standard", found.__name__, ""]
    return ["standard", str(getattr(found, "__module__", "")), str(getattr(found, "__name__", ""))]


def _own_copy(name: str, module: str = "", part: str = "") -> Any:
    """Return our own copy of what the program took from the standard library, which it may have changed."""
    if module not in _STANDARD or part not in ("", name):
        return None
    own = importlib.import_module(module)
    return getattr(own, part, None) if part else own


def _require_harmless(what: str, args: list[Any]) -> None:
    if what not in _GUEST_OPERATIONS or isinstance(args[0], ModuleType):
        raise TypeError(f"a program cannot {what} an object of its tests")
    if what in ("getattr", "setattr"):
        if not isinstance(args[1], str) or args[1].startswith(_FRAME_NAMES):
            raise AttributeError(args[1])
        if what == "setattr" and (isinstance(args[0], type) or callable(args[0])):
            raise TypeError("a program cannot change a function or class of its tests")


def _builtin_exception(name: str) -> type[BaseException] | None:
    found = getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _replace(old: Any, new: Any) -> None:
    """Change the content of a mutable argument as the program did."""
    if type(old) is not type(new) or not isinstance(old, _MUTABLE):
        return
    if isinstance(old, list | bytearray):
        old[:] = new
    else:
        old.clear()
        old.update(new)
