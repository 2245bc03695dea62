"""How values cross between two processes that do not trust each other: as data, or as a reference to an object.

JSON, so that reading a message can only yield data. Objects that are no data stay where they are: the other side gets a
number by which it can ask for them.
"""

from __future__ import annotations

import datetime
import json
import socket
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

MOST_BYTES = 64 << 20  # of one message
_HEADER = struct.Struct(">I")
_PLAIN = (type(None), bool, int, float, str)

# Types that are data: how an instance is written as JSON data, and how it is made of that.
_KINDS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    tuple: ("tuple", list, tuple),
    set: ("set", list, set),
    frozenset: ("frozenset", list, frozenset),
    deque: ("deque", list, deque),
    dict: ("dict", lambda value: list(value.items()), dict),
    OrderedDict: ("OrderedDict", lambda value: list(value.items()), OrderedDict),
    Counter: ("Counter", lambda value: list(value.items()), lambda pairs: Counter(dict(pairs))),
    defaultdict: ("dict", lambda value: list(value.items()), dict),
    type({}.keys()): ("keys", list, lambda keys: dict.fromkeys(keys).keys()),
    type({}.items()): ("items", list, lambda pairs: dict(pairs).items()),
    type({}.values()): ("values", list, lambda values: dict(enumerate(values)).values()),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
    bytearray: ("bytearray", bytearray.hex, bytearray.fromhex),
    complex: ("complex", lambda value: [value.real, value.imag], lambda parts: complex(*parts)),
    range: ("range", lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts)),
    slice: ("slice", lambda value: [value.start, value.stop, value.step], lambda parts: slice(*parts)),
    type(...): ("...", lambda _: None, lambda _: ...),
    Decimal: ("Decimal", str, Decimal),
    Fraction: ("Fraction", lambda value: [value.numerator, value.denominator], lambda parts: Fraction(*parts)),
    datetime.date: ("date", datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.time: ("time", datetime.time.isoformat, datetime.time.fromisoformat),
    datetime.datetime: ("datetime", datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    datetime.timedelta: (
        "timedelta",
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: datetime.timedelta(*parts),
    ),
}
_MAKERS = {name: make for name, _, make in reversed(_KINDS.values())}
_BASES = (str, bytes, int, float, tuple, list, dict, set, frozenset)  # of an enum, a named tuple and the like
REFERENCE = "reference"


class ConnectionEndedError(BaseException):
    """The other process has ended. Not an Exception: no ``except Exception`` of a test may take it for a result."""


def pack(value: Any, refer: Callable[[Any], Any]) -> Any:
    """Write a value as JSON data; anything else becomes what ``refer`` returns for it."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [each if type(each) in _PLAIN else pack(each, refer) for each in value]
    known = _KINDS.get(kind)
    if known is not None:
        name, parts, _ = known
        return {"kind": name, "of": pack(parts(value), refer)}
    for base in _BASES:
        if isinstance(value, base):  # its content without what its class may have redefined
            return pack(_content(base, value), refer)
    return {"kind": REFERENCE, "of": refer(value)}


def unpack(data: Any, find: Callable[[Any], Any]) -> Any:
    """Read a value; ``find`` returns the object of a reference."""
    if isinstance(data, list):
        return [each if type(each) in _PLAIN else unpack(each, find) for each in data]
    if isinstance(data, dict):
        if data["kind"] == REFERENCE:
            return find(data["of"])
        return _MAKERS[data["kind"]](unpack(data["of"], find))
    return data


def _content(base: Any, value: Any) -> Any:
    if base is dict:
        return {key: dict.__getitem__(value, key) for key in dict.__iter__(value)}
    if base in (tuple, list, set, frozenset):
        return base(base.__iter__(value))
    if base is int:
        return int.__add__(value, 0)
    if base is float:
        return float.__add__(value, 0.0)
    return base.__getitem__(value, slice(None))


def send(connection: socket.socket, message: Any) -> None:
    """Send one message."""
    data = json.dumps(message).encode()
    try:
        connection.sendall(_HEADER.pack(len(data)) + data)
    except OSError:
        raise ConnectionEndedError from None


def receive(connection: socket.socket) -> Any:
    """Receive one message.

    Raises:
        ConnectionEndedError: The other side has ended, or sent what is no message.

    """
    (size,) = _HEADER.unpack(_read(connection, _HEADER.size))
    if size > MOST_BYTES:
        raise ConnectionEndedError
    try:
        return json.loads(_read(connection, size))
    except (ValueError, RecursionError):
        raise ConnectionEndedError from None


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        try:
            piece = connection.recv(min(size - len(data), 1 << 20))
        except OSError:
            raise ConnectionEndedError from None
        if not piece:
            raise ConnectionEndedError
        data += piece
    return bytes(data)
