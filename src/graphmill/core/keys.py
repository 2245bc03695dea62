"""Under which keys things are known for good: hashes that are the same on every machine and after every restart."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import orjson

from graphmill.core.json_text import PLAIN, encoder, to_json

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
        return _encode(value).encode()
    except (
        TypeError,
        ValueError,
    ):  # a type with a usual form, a number that JSON lacks, half of a surrogate pair, keys of mixed types
        plain = json.loads(to_json(value))
    try:
        return _encode(plain).encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


_SORTED = PLAIN | orjson.OPT_SORT_KEYS
_encode = encoder(sort_keys=True)
