"""An answer: what it means for the attempt, and what is in it."""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple

from graphmill.core.errors import AttemptError, Permanent, Throttled, Transient, message_of
from graphmill.core.json import STRICT
from graphmill.core.retry_after import retry_after_s

MOST_RETRY_AFTER_S = 900.0
_MOST_SHOWN = 300
_LEAST_HIDDEN = 4
_JSON = re.compile(r"(?:[^/]+/)?(?:[^/]+\+)?json")
_TEXT = re.compile(
    r"text/.*|.*[/+]xml|application/(?:.*javascript|x-www-form-urlencoded|yaml|x-yaml|toml|csv|jsonl|x-ndjson|graphql|sql)"
)
_CHARSET = re.compile(r"""(?:^|;)\s*charset\s*=\s*["']?([^\s;"']+)""", re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back; the names of its headers are in lower case.

    ``is_empty`` says that no body was announced, ``is_good`` that it is no failure.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_empty: bool
    is_good: bool


class Content(NamedTuple):
    """What a body holds: data, text, or bytes as base64."""

    value: Any
    is_binary: bool


def content_of(answer: Answer) -> Content:
    """Read a body by its type; Transient if it is not what that says."""
    if answer.is_empty and not answer.body:
        return Content(None, is_binary=False)
    kind, charset = _type(answer.headers.get("content-type", ""))
    if _JSON.fullmatch(kind):
        return Content(_json(answer.body, charset), is_binary=False)
    if _TEXT.fullmatch(kind) or charset or (not kind and _is_utf8(answer.body)):
        return Content(_decoded(answer.body, charset), is_binary=False)
    return Content(base64.b64encode(answer.body).decode(), is_binary=True)


def error_of(answer: Answer, request: str, hidden: Iterable[str] = ()) -> AttemptError:
    """Give what an answer that is not good means for the attempt; ``hidden`` are texts that a message must not repeat."""
    status = answer.status
    said = f"{request} was answered {status} {_phrase(status)}".rstrip() + _shown(answer, hidden)
    asked_s = retry_after_s(answer.headers)
    wait_s = None if asked_s is None else min(asked_s, MOST_RETRY_AFTER_S)
    if status == 429 or (status == 503 and wait_s is not None):
        return Throttled(said, retry_after_s=wait_s)
    if status == 503:
        return Transient(said, is_unsent=True)
    if status in (408, 425) or status >= 500:
        return Transient(said, retry_after_s=wait_s)
    return Permanent(said)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _shown(answer: Answer, hidden: Iterable[str]) -> str:
    text = answer.body[: 16 * _MOST_SHOWN].decode(errors="replace")
    for each in sorted(hidden, key=len, reverse=True):
        if len(each) >= _LEAST_HIDDEN:
            text = text.replace(each, "…")
    text = _UNPRINTABLE.sub(" ", text).strip()
    return f": {text[:_MOST_SHOWN]}{'…' if len(text) > _MOST_SHOWN else ''}" if text else ""


@lru_cache(maxsize=256)
def _type(header: str) -> tuple[str, str]:
    """Give a content type and its charset, "" where it names none."""
    kind, _, parameters = header.partition(";")
    charset = _CHARSET.search(parameters)
    return kind.strip().lower(), charset[1] if charset else ""


def _json(body: bytes, charset: str) -> Any:
    text = _decoded(body, charset)
    try:
        return STRICT.decode(text)
    except (ValueError, RecursionError) as error:
        raise Transient(f"the answer says that it is JSON, and is not: {message_of(error)}") from None


def _decoded(body: bytes, charset: str) -> str:
    try:
        if not charset:
            return body.decode("utf-8-sig")
        codec = codecs.lookup(charset)
        name = "utf-8-sig" if codec.name == "utf-8" else codec.name
        if not codec._is_text_encoding:
            raise LookupError(charset)
        return body.decode(name)
    except LookupError:
        raise Transient(f"the answer is in {charset!r:.40}, which is no known charset") from None
    except UnicodeError as error:
        raise Transient(
            f"the answer is not the {charset or 'utf-8'} that it should be, or is cut: {message_of(error)}"
        ) from None


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
