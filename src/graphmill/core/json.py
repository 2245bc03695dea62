"""JSON as we write and read it: one line, readable, always valid; its hashes, its limits and the positions of its parts."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping, Set
from copy import copy
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from hashlib import blake2b
from itertools import zip_longest
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec
import orjson

from graphmill.core.errors import Permanent, message_of
from graphmill.core.positions import TextError, place, text_place

# Inside JSON text these stand only in strings. Escaped, they can not break readers that split on every Unicode line end.
_LINE_ENDS = {"\u0085": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_LINE_ENDS_IN_UTF8 = [(end.encode(), escaped.encode()) for end, escaped in _LINE_ENDS.items()]
_ESCAPES = str.maketrans(_LINE_ENDS)
# Written at once are plain values only: what has a usual form of its own, also by being a subclass, is left to us.
PLAIN = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def _ordered(value: Set[Any]) -> list[Any]:
    """List a set in an order that is the same in every process, which its own is not."""
    is_simple = all(isinstance(entry, str) for entry in value) or all(isinstance(entry, int | float) for entry in value)
    return sorted(value) if is_simple else sorted(value, key=to_json)


_decode = msgspec.json.Decoder().decode
_USUAL_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (Enum, lambda value: value.value),
    ((datetime, date, time), lambda value: value.isoformat()),
    ((Decimal, UUID, PurePath), str),
    (Mapping, dict),
    (Set, _ordered),
)


def to_json(value: Any) -> str:
    """Write a value as ``json_bytes`` does, as text."""
    return json_bytes(value).decode()


def json_bytes(value: Any) -> bytes:
    """Write a value as one line of JSON. NaN and the infinities, which JSON lacks, become null.

    Dataclasses, pydantic models, dates, decimals, paths, enums and sets are written in their usual form; any other type
    is a TypeError that names it.
    """
    try:
        body = orjson.dumps(value, None, PLAIN)
    except TypeError:  # not plain, or plain and odd, such as a large number or half of a surrogate pair
        return _written(value).encode()
    exact = (
        b"%b" % body
    )  # orjson's own bytes keep 4 KB at the least, and long ones up to thirteen times the room that they need
    return exact if exact.isascii() else _unbroken(exact)


def _unbroken(body: bytes) -> bytes:
    for line_end, escaped in _LINE_ENDS_IN_UTF8:
        body = body.replace(line_end, escaped)
    return body


def _written(value: Any) -> str:
    try:
        text = _encode(value)
    except ValueError:
        text = _encode(_finite(value))
    if text.isascii():
        return text
    text = text.translate(_ESCAPES)
    return text if _is_utf8(text) else json.dumps(json.loads(text), separators=(",", ":"))


def require_json(output: Any) -> Any:
    """Give an output back, or refuse it, as a permanent failure of the job, if no row can hold it: now, not at the night's end."""
    json_of(output)
    return output


def json_of(output: Any) -> bytes:
    """Write an output as JSON; if it can not be, that is a permanent failure of its job."""
    try:
        return json_bytes(output)
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"the output is not JSON: {message_of(error)}") from error


def from_json(text: bytes, *, first_line: int = 1, unique_keys: bool = False) -> Any:
    """Read JSON; ValueError names line and column of a mistake, in the file in which this text has its first line there."""
    try:
        if not unique_keys and (found := _read_quickly(text)):
            return found[0]
        return json.loads(text, object_pairs_hook=with_unique_keys if unique_keys else None)
    except json.JSONDecodeError as error:
        raise TextError(f"not JSON: {error.msg}", line=first_line + error.lineno - 1, column=error.colno) from error
    except UnicodeDecodeError as error:
        line, column = place(text, error.start, first_line=first_line)
        raise TextError(f"not JSON: {error}", line=line, column=column) from error
    except (ValueError, RecursionError) as error:
        later = " or later" if b"\n" in text else ""
        raise ValueError(f"line {first_line}{later}: not JSON that can be read: {error}") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


# For JSON that others send: Python's reader takes NaN and Infinity, which JSON does not have.
STRICT = json.JSONDecoder(parse_constant=_refuse_constant)


def with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its pairs; ValueError names a key that stands twice in it, of which one would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"the key {next(name for name in names if names.count(name) > 1)!r:.80} stands twice in one object"
        )
    return found


def _read_quickly(text: bytes) -> tuple[Any] | None:
    """Read what msgspec takes, which it reads as Python does; None for the rest: mistakes, and what Python alone can read, such as NaN."""
    try:
        return (_decode(text),)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    for types, convert in _USUAL_FORMS:
        if isinstance(value, types):
            return convert(value)
    if callable(dump := getattr(value, "model_dump", None)):  # pydantic's models
        return dump(mode="json")
    if callable(as_list := getattr(value, "tolist", None)):  # numpy's numbers and arrays, and their like
        return as_list()
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} is not a JSON type".replace("builtins.", ""))


def _finite(value: Any) -> Any:
    """Copy a value with null for each number that JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if value is None or isinstance(value, str | int):
        return value
    return _finite(_plain(value))


def encoder(*, sort_keys: bool, default: Callable[[Any], Any] | None = None) -> Callable[[Any], str]:
    """Give a function that writes values as JSON in our form; what JSON lacks is a TypeError, or what ``default`` makes of it."""
    made = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys, default=default
    )
    if c_make_encoder is None:
        return made.encode
    # What JSONEncoder.encode does for each value anew, done once: to make the encoder costs as much as to use it.
    encode = c_make_encoder(None, made.default, encode_basestring, None, ":", ",", sort_keys, False, False)  # noqa: FBT003
    return lambda value: "".join(encode(value, 0))


_encode = encoder(sort_keys=False, default=_plain)


KEY_BYTES = 16
_BLANK = blake2b(digest_size=KEY_BYTES)


def item_key(item_id: str) -> bytes:
    """Give the key of an item within its run."""
    return digest(item_id.encode("utf-8", "surrogatepass"))


def digest(data: bytes) -> bytes:
    """Hash bytes to a key."""
    hashed = _BLANK.copy()  # two thirds of the cost of one made anew
    hashed.update(data)
    return hashed.digest()


def canonical(value: Any) -> bytes:
    """Write a value as JSON that is the same whatever the order of its keys; TypeError names what JSON can not hold."""
    try:
        return orjson.dumps(value, None, _SORTED)
    except TypeError:
        return _canonical(value)


def _canonical(value: Any) -> bytes:
    try:
        return _encode_sorted(value).encode()
    except (
        TypeError,
        ValueError,
    ):  # a type with a usual form, a number that JSON lacks, half of a surrogate pair, keys of mixed types
        plain = json.loads(to_json(value))
    try:
        return _encode_sorted(plain).encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


_SORTED = PLAIN | orjson.OPT_SORT_KEYS
_encode_sorted = encoder(sort_keys=True)


MOST_LEVELS = 200


def is_too_deep(data: Any) -> bool:
    """Tell whether data is nested deeper than we take; data that holds itself is."""
    return _height(data, 0, {}) > MOST_LEVELS


def _height(data: Any, level: int, known: dict[int, int]) -> int:
    """Give the levels of ``data``, each container looked at once however often it is shared."""
    entries = data.values() if isinstance(data, Mapping) else data if isinstance(data, list | tuple) else None
    if entries is None:
        return 0
    if level > MOST_LEVELS:
        return MOST_LEVELS + 1
    if id(data) not in known:
        known[id(data)] = MOST_LEVELS + 1  # while it is looked at: who meets it again is inside it
        known[id(data)] = 1 + max((_height(entry, level + 1, known) for entry in entries), default=0)
    return known[id(data)]


_ATOMS = frozenset({str, int, float, bool, bytes, type(None)})  # looked at first: most of what is met


def fresh(value: Any) -> Any:
    """Copy the lists, dicts, tuples and sets of ``value``, to any depth; everything else is passed on as it is."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict:
        return {key: entry if type(entry) in _ATOMS else fresh(entry) for key, entry in value.items()}
    if kind is list:
        return [entry if type(entry) in _ATOMS else fresh(entry) for entry in value]
    if kind is tuple:
        return tuple([fresh(entry) for entry in value])
    if kind is set:
        return set(value)
    if isinstance(value, dict):  # OrderedDict, defaultdict, Counter
        twin = copy(value)
        for key, entry in value.items():
            twin[key] = fresh(entry)
        return twin
    return value


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


@dataclass(slots=True)
class Part:
    """One value: where it begins and ends, where its key begins, and its parts by key or position."""

    start: int
    end: int = 0
    key: int | None = None
    parts: dict[str | int, Part] = field(default_factory=dict)


def decoded(text: bytes) -> str:
    """Give the text as the JSON reader sees it, in whichever encoding it detects."""
    return text.decode(json.detect_encoding(text), "surrogatepass")


def scan(text: str) -> Part:
    """Find every part of a text that is JSON; TextError for a key that stands twice in one object, and for too many levels."""
    scanner = _Scanner(text)
    tokens = list(_TOKEN.finditer(text))
    for token, after in zip_longest(tokens, tokens[1:]):
        mark = token[0]
        if mark in "]}":
            scanner.close(token.end())
        elif mark[0] == '"' and after is not None and after[0] == ":":
            scanner.key = (json.loads(mark), token.start())
        elif mark not in ",:":
            scanner.add(Part(token.start(), token.end()))
    return scanner.root or Part(0)


class _Scanner:
    """The parts found so far: the outermost, those that are open, and the key whose value comes next."""

    def __init__(self, text: str) -> None:
        self.root: Part | None = None
        self.key: tuple[str, int] | None = None
        self._text = text
        self._open: list[Part] = []

    def add(self, part: Part) -> None:
        if self.key is not None:
            part.key = self.key[1]
        if self._open:
            self._put(part, self._open[-1])
        self.root, self.key = self.root or part, None
        if self._text[part.start] in "[{":
            self._open.append(part)
            if len(self._open) > MOST_LEVELS:
                raise _placed_error(f"nested deeper than {MOST_LEVELS} levels", part.start, self._text)

    def close(self, end: int) -> None:
        self._open.pop().end = end

    def _put(self, part: Part, holder: Part) -> None:
        name = self.key[0] if self.key is not None and self._text[holder.start] == "{" else len(holder.parts)
        if name in holder.parts:
            raise _placed_error(f"the key {name!r} stands twice in one object", part.key or part.start, self._text)
        holder.parts[name] = part


def _placed_error(reason: str, offset: int, text: str) -> TextError:
    line, column = text_place(text, offset)
    return TextError(reason, line=line, column=column)
