"""A request as it is sent: every part of it checked, or written so that a value can only be one."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from graphmill.core.content_decoding import ACCEPTED
from graphmill.core.errors import Permanent, message_of
from graphmill.core.json import json_bytes
from graphmill.nodes.http.url import Url, encoded
from graphmill.nodes.text import param_bytes, param_text

READING = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS = (*sorted(READING), "DELETE", "PATCH", "POST", "PUT")
OURS = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_A_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]|^[ \t]|[ \t]\Z")
_KEPT_ACROSS_ORIGINS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
_OF_A_BODY = frozenset({"content-type", "content-encoding", "content-language"})
_USER_AGENT = "graphmill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent where; the names of its headers are in lower case."""

    method: str
    url: Url
    headers: Mapping[str, str]
    body: bytes | None = None

    @property
    def is_reading(self) -> bool:
        """Whether it asks and changes nothing."""
        return self.method in READING

    @property
    def shown(self) -> str:
        """As a message may repeat it."""
        return f"{self.method} {self.url.shown}"

    def turns_to_get(self, status: int) -> bool:
        """Tell whether an answer that leads elsewhere says that this has been done, and its outcome is to be read there."""
        return (status == 303 and self.method != "HEAD") or (status in (301, 302) and self.method == "POST")

    def redirected(self, status: int, url: Url) -> Request:
        """Give what follows an answer that leads elsewhere, as browsers do it; another origin gets nothing that was meant for this one."""
        headers = dict(self.headers)
        method, body = self.method, self.body
        if self.turns_to_get(status):
            method, body = "GET", None
            headers = {
                name: value for name, value in headers.items() if name not in _OF_A_BODY and name != "idempotency-key"
            }
        if url.origin != self.url.origin:
            headers = {name: value for name, value in headers.items() if name in _KEPT_ACROSS_ORIGINS}
        return replace(self, method=method, url=url, headers=headers, body=body)


def header_problem(name: str, value: str) -> str | None:
    """Say why a header can not be sent; its value is not repeated."""
    if not _NAME.fullmatch(name):
        return f"{name!r:.60} can not be the name of a header"
    if name.lower() in OURS:
        return f"{name} is set by the node itself; leave it out"
    if _NOT_IN_A_HEADER.search(value):
        return f"{name}: no header can carry a line's end, another control character, half a surrogate pair, or spaces around its value"
    return None


def header_lines(given: Mapping[str, Any]) -> dict[str, str]:
    """Give headers by name in lower case, without those that are null; Permanent says which can not be sent."""
    lines: dict[str, str] = {}
    for name, value in given.items():
        if value is None:
            continue
        text = param_text(value, f"headers.{name}")
        if problem := header_problem(name, text):
            raise Permanent(f"headers: {problem}")
        lines[name.lower()] = text
    lines.setdefault("accept", "*/*")
    lines.setdefault("accept-encoding", ACCEPTED)
    lines.setdefault("user-agent", _USER_AGENT)
    return lines


def bearer(token: str) -> str:
    """Give the header of a token."""
    if _NOT_IN_A_HEADER.search(token):
        raise Permanent("auth.bearer: a token has no line's end, control character, or spaces around it")
    return f"Bearer {token}"


def basic(user: str, password: str) -> str:
    """Give the header of a user."""
    if ":" in user:
        raise Permanent("auth.basic.user: a user's name has no colon")
    return f"Basic {base64.b64encode(param_bytes(f'{user}:{password}', 'auth.basic')).decode()}"


def query_of(given: Mapping[str, Any]) -> str:
    """Write pairs as a query: a list is a pair for each entry, null none, a mapping its JSON."""
    return "&".join(_pairs(given, "params"))


def form_of(given: Mapping[str, Any]) -> bytes:
    """Write pairs as the body of a form."""
    return "&".join(_pairs(given, "form")).encode()


def _pairs(given: Mapping[str, Any], at: str) -> list[str]:
    found = [(name, each) for name, value in given.items() for each in (value if isinstance(value, list) else (value,))]
    return [f"{encoded(name, at)}={encoded(param_text(value, at), at)}" for name, value in found if value is not None]


def body_of(value: Any) -> tuple[bytes, str]:
    """Give what is sent, and its type: text as it is, all else as JSON."""
    if isinstance(value, str):
        return param_bytes(value, "body"), "text/plain; charset=utf-8"
    try:
        return json_bytes(value), "application/json"
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"body: not JSON: {message_of(error)}") from error
