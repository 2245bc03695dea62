"""JSON: writing it on one line, reading it strictly, hashing it, its depth limit, and the positions of its parts."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Set
from copy import copy
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from hashlib import blake2b
from itertools import zip_longest
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec
import orjson

from graphmill.core.errors import Permanent, message_of
from graphmill.core.positions import TextError, place, text_place
from graphmill.core.usage import Usage

# In JSON text these occur only in strings. They are escaped for readers that split on every Unicode line end.
_LINE_ENDS = {"\u0085": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_LINE_ENDS_IN_UTF8 = [(end.encode(), escaped.encode()) for end, escaped in _LINE_ENDS.items()]
_ESCAPES = str.maketrans(_LINE_ENDS)
# orjson writes plain values only; our own conventions apply to dataclasses, dates and subclasses.
PLAIN = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def _sorted_set(value: Set[Any]) -> list[Any]:
    """List a set in an order that is the same in every process, unlike its own."""
    is_simple = all(isinstance(entry, str) for entry in value) or all(isinstance(entry, int | float) for entry in value)
    return sorted(value) if is_simple else sorted(value, key=to_json)


_decode = msgspec.json.Decoder().decode
_USUAL_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (Enum, lambda value: value.value),
    ((datetime, date, time), lambda value: value.isoformat()),
    ((Decimal, UUID, PurePath), str),
    (Mapping, dict),
    (Set, _sorted_set),
)


def to_json(value: Any) -> str:
    """Write a value like ``json_bytes``, as text."""
    return json_bytes(value).decode()


def text_or_json(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else to_json(value)


def json_bytes(value: Any, *, is_exact: bool = False) -> bytes:
    """Write a value as one line of JSON. NaN and infinity become null, and of equal keys the last counts.

    If it ``is_exact``, such a value is a ValueError instead.
    Dataclasses, pydantic models, dates, decimals, paths, enums and sets are written in their usual form; any other type
    is a TypeError that names it.
    """
    try:
        body = orjson.dumps(value, None, PLAIN)
    except TypeError:  # not plain, or a large integer, or half of a surrogate pair
        return _write_slowly(value, is_exact=is_exact).encode()
    if is_exact and body.find(b"null") >= 0 and _has_nan(value):  # orjson writes null for NaN; find is faster than in
        raise ValueError(_NO_NUMBER)
    exact = b"%b" % body  # a copy: orjson's own bytes occupy at least 4 KB, and up to thirteen times their size
    if not exact.isascii():
        for line_end, escaped in _LINE_ENDS_IN_UTF8:
            exact = exact.replace(line_end, escaped)
    return exact


def _write_slowly(value: Any, *, is_exact: bool) -> str:
    if is_exact:
        text = _encode_numbers(value)
        json.loads(text, object_pairs_hook=_unique_keys)  # 1 and "1" are different keys only in Python
    else:
        try:
            text = _encode(value)
        except ValueError:
            text = _encode(_finite(value))
    if text.isascii():
        return text
    text = text.translate(_ESCAPES)
    if not _is_utf8(text):  # escape everything
        return json.dumps(json.loads(text), separators=(",", ":"))
    return text


def _encode_numbers(value: Any) -> str:
    """Write a value; ValueError for NaN and infinity."""
    try:
        return _encode(value)
    except ValueError as error:
        if "float" in str(error):
            raise ValueError(_NO_NUMBER) from None
        raise


_NO_NUMBER = "NaN and infinity are not JSON numbers"
_NEVER_NAN = frozenset({str, int, bool, type(None)})


def _has_nan(value: Any) -> bool:
    """Whether NaN or infinity is in a value that orjson writes by itself."""
    kind = type(value)
    if kind is float:
        return not math.isfinite(value)
    if kind is dict:
        value = value.values()
    elif kind is not list and kind is not tuple:
        return isinstance(value, Enum) and _has_nan(value.value)
    for entry in value:  # noqa: SIM110  at half the cost
        if type(entry) not in _NEVER_NAN and _has_nan(entry):
            return True
    return False


def require_json(output: Any) -> Any:
    """Return an output that can be written as JSON; any other is a permanent failure of its job, now and not later."""
    json_of(output, is_exact=False)
    return output


def json_of(output: Any, *, is_exact: bool = True) -> bytes:
    """Write an output as JSON; an output that cannot be written is a permanent failure of its job."""
    try:
        return json_bytes(output, is_exact=is_exact)
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"the output is not JSON: {message_of(error)}") from error


def from_json(text: bytes, *, first_line: int = 1, unique_keys: bool = False) -> Any:
    """Read JSON; ValueError names the line and column of a mistake. The text begins on ``first_line`` of its file."""
    try:
        if not unique_keys and (found := _read_quickly(text)):
            return found[0]
        return json.loads(text, object_pairs_hook=_unique_keys if unique_keys else None)
    except json.JSONDecodeError as error:
        raise TextError(f"not JSON: {error.msg}", line=first_line + error.lineno - 1, column=error.colno) from error
    except UnicodeDecodeError as error:
        line, column = place(text, error.start, first_line=first_line)
        raise TextError(f"not JSON: {error}", line=line, column=column) from error
    except (ValueError, RecursionError) as error:
        later = " or later" if b"\n" in text else ""
        raise ValueError(f"line {first_line}{later}: not JSON: {error}") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


# For JSON that others send: Python's reader takes NaN and Infinity, which JSON does not have.
STRICT = json.JSONDecoder(parse_constant=_refuse_constant)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its pairs; ValueError names a repeated key."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"repeated key {next(name for name in names if names.count(name) > 1)!r:.80} in one object")
    return found


def _read_quickly(text: bytes) -> tuple[Any] | None:
    """Read with msgspec; None for mistakes, and for what only Python reads, such as NaN."""
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
    if isinstance(value, Usage):
        return value.to_json()
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
    """Copy a value, with null for NaN and infinity."""
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return None
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if value is None or isinstance(value, str | int):
        return value
    return _finite(_plain(value))


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode


KEY_BYTES = 16
_BLANK = blake2b(digest_size=KEY_BYTES)


_MAPPINGS = (dict, Mapping)  # the check against an abstract class is slow, and nearly all are dicts


class MissingField:
    """The value of a field that a row does not have."""


MISSING = MissingField()


def field_inside(value: Any, name: str) -> Any:
    """Return a field of a mapping, by its name or, with dots, by the way to it; MISSING if there is none."""
    if not isinstance(value, _MAPPINGS):
        return MISSING
    if name in value:
        return value[name]
    head, dot, rest = name.partition(".")
    if not dot or head not in value:
        return MISSING
    return field_inside(value[head], rest)


def item_key(item_id: str) -> bytes:
    """Return the key of an item within its run: the same on every machine and after every restart."""
    return digest(item_id.encode("utf-8", "surrogatepass"))


def digest(data: bytes) -> bytes:
    """Hash bytes to 16 bytes."""
    hashed = _BLANK.copy()  # a third faster than a new one
    hashed.update(data)
    return hashed.digest()


def canonical(value: Any) -> bytes:
    """Write a value as JSON with sorted keys; TypeError names a type that JSON does not have."""
    try:
        return orjson.dumps(value, None, _SORTED)
    except TypeError:
        return _canonical(value)


def _canonical(value: Any) -> bytes:
    try:
        return _encode_sorted(value).encode()
    except (TypeError, ValueError):  # a type with a usual form, NaN, half of a surrogate pair, keys of mixed types
        plain = json.loads(to_json(value))
    try:
        return _encode_sorted(plain).encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


_SORTED = PLAIN | orjson.OPT_SORT_KEYS
_encode_sorted = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True).encode


MOST_LEVELS = 200


def is_too_deep(data: Any) -> bool:
    """Whether data is nested deeper than 200 levels, or contains itself: readers that recurse would fail."""
    return _height(data, 0, {}) > MOST_LEVELS


def count_levels(data: Any) -> int:
    """Return how many levels deep data is nested; a little more than MOST_LEVELS at most."""
    return _height(data, 0, {})


def _height(data: Any, level: int, known: dict[int, int]) -> int:
    """Count the levels of ``data``; looks at each container once, however often it is shared."""
    entries: Iterable[Any]
    if isinstance(data, Mapping):
        entries = data.values()
    elif isinstance(data, list | tuple):
        entries = data
    else:
        return 0
    if level > MOST_LEVELS:
        return MOST_LEVELS + 1
    if id(data) not in known:
        known[id(data)] = MOST_LEVELS + 1  # until it is counted: if met again, it contains itself
        known[id(data)] = 1 + max((_height(entry, level + 1, known) for entry in entries), default=0)
    return known[id(data)]


_ATOMS = frozenset({str, int, float, bool, bytes, type(None)})  # looked at first: most of what is met


def fresh(value: Any) -> Any:
    """Copy the lists, dicts, tuples and sets of a value, to any depth, so that user code can change them."""
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
    """A value in a JSON text: where it and its key begin, where it ends, and its parts by key or index."""

    start: int
    end: int = 0
    key: int | None = None
    parts: dict[str | int, Part] = field(default_factory=dict)


def decode_text(text: bytes) -> str:
    """Decode a text as the JSON reader does, in the encoding it detects."""
    return text.decode(json.detect_encoding(text), "surrogatepass")


def scan(text: str) -> Part:
    """Find the positions of all parts of a JSON text; TextError for a repeated key, and for too many levels."""
    scanner = _PartScanner(text)
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


class _PartScanner:
    """The parts found so far: the outermost, the open ones, and the key whose value comes next."""

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
        name: str | int = len(holder.parts)
        if self.key is not None and self._text[holder.start] == "{":
            name = self.key[0]
        if name in holder.parts:
            raise _placed_error(f"repeated key {name!r} in one object", part.key or part.start, self._text)
        holder.parts[name] = part


def _placed_error(reason: str, offset: int, text: str) -> TextError:
    line, column = text_place(text, offset)
    return TextError(reason, line=line, column=column)
