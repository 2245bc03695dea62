"""An answer over HTTP, and the JSON object in its body."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from graphmill.core.errors import Transient, Unavailable, message_of
from graphmill.core.json import STRICT

_decode = msgspec.json.Decoder().decode


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What came back; its headers are found by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status says that it went well."""
        return 200 <= self.status < 300


def object_of(body: bytes) -> dict[str, Any]:
    """Read a body as one JSON object, whatever its type is said to be; Unavailable for a web page, Transient for all else."""
    try:
        data = _decode(body)
    except (ValueError, RecursionError):  # a mistake, or a number that only Python reads
        data = _decoded_strictly(body)
    if not isinstance(data, dict):
        raise Transient(f"the answer is no JSON object but {type(data).__name__}")
    return data


def _decoded_strictly(body: bytes) -> Any:
    try:
        return STRICT.decode(body.decode())
    except UnicodeDecodeError as error:
        raise Transient(f"the answer is not UTF-8, or was cut: {error.reason} at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        if _is_page(body):
            raise Unavailable(
                "a web page came back instead of an answer; check the address, and what stands before it"
            ) from None
        raise Transient(f"the answer is no JSON, or was cut: {message_of(error)}") from None


def error_object_of(body: bytes) -> dict[str, Any]:
    """Read the body of an error as far as it can be, also where it was cut; nothing of it is relied on."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return {"error": _texts(body)} if body.lstrip()[:1] == b"{" else {}
    if isinstance(data, list) and data:
        data = data[0]
    return data if isinstance(data, dict) else {}


def _texts(body: bytes) -> dict[str, str]:
    """Find what the head of an error object says."""
    error = body.partition(b'"error"')[2] or body
    found: dict[str, str] = dict(reversed(_TEXT.findall(error.decode(errors="replace"))))  # the first of each
    return {name: json.loads(f'"{text}"', strict=False) for name, text in found.items()}


def entry(data: Any, *way: str | int) -> Any:
    """Give what stands at the end of a way through data, None if it leads nowhere."""
    for key in way:
        if type(data) is dict:
            data = data.get(key)
        elif type(data) is list and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            return None
    return data


def text_at(data: Any, *way: str | int) -> str:
    """Give the text at the end of a way, "" if there is none."""
    found = entry(data, *way)
    return found if isinstance(found, str) else ""


def count_at(data: Any, *way: str | int) -> int:
    """Give the count at the end of a way, 0 if there is none."""
    return count(entry(data, *way))


def count(found: Any) -> int:
    """Give a count as it is told, 0 for what is none."""
    return int(found) if type(found) in _NUMBERS and 0 <= found < 1e15 else 0


def list_at(data: Any, *way: str | int) -> list[Any]:
    """Give the list at the end of a way, an empty one if there is none."""
    found = entry(data, *way)
    return found if isinstance(found, list) else []


def _is_page(body: bytes) -> bool:
    return body.lstrip()[:1] == b"<"


_TEXT = re.compile(r'"(message|type|code|status|detail)"\s*:\s*"((?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)')
_NUMBERS = (int, float)  # and not bool, which is an int to Python
