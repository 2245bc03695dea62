"""JSON as we write it: one line, readable, safe to split on newlines, always valid."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Set
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec
import orjson

from graphmill.core.errors import Permanent
from graphmill.core.message import message_of
from graphmill.core.place import TextError, place

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
        if not unique_keys and (found := _quickly(text)):
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


def with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its pairs; ValueError names a key that stands twice in it, of which one would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"the key {next(name for name in names if names.count(name) > 1)!r:.80} stands twice in one object"
        )
    return found


def _quickly(text: bytes) -> tuple[Any] | None:
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
