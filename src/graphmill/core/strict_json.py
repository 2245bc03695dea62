"""JSON as others send it, read strictly: a key that stands twice in one object, or a number that JSON lacks, is a mistake."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import orjson

from graphmill.core.json import with_unique_keys


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def strict_object(body: bytes) -> dict[str, Any] | None:
    """Read an object quickly, if it can be known at once that nothing of it is a mistake; None leaves it to STRICT.

    A key that stands twice is lost when it is read, and its colon with it: then fewer are written than were read. The count would hide
    that where a colon is escaped, which is written as itself.
    """
    try:
        found = _decode(body)
        is_all_read = b"\\u003" not in body and orjson.dumps(found).count(b":") == body.count(b":")
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError):
        return None
    return found if is_all_read and type(found) is dict else None


_decode = msgspec.json.Decoder().decode
STRICT = json.JSONDecoder(object_pairs_hook=with_unique_keys, parse_constant=_refused)
