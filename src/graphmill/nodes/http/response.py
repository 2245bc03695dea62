"""What an http node does with a request: send it, follow redirects, and read the last response or say why it failed."""

from __future__ import annotations

import asyncio
import base64
import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, NamedTuple, NoReturn

from graphmill.core.errors import AttemptError, Permanent, Throttled, Transient, message_of
from graphmill.core.json import STRICT
from graphmill.graph.node_type import Context
from graphmill.http.connection import HttpClient, HttpResponse
from graphmill.http.faults import (
    ForbiddenAddressError,
    HttpError,
    InvalidRequestError,
    NotSentError,
    ResponseTooLargeError,
    UnknownEncodingError,
    UntrustedCertificateError,
)
from graphmill.http.headers import read_retry_after
from graphmill.nodes.http.request import HttpUrl, OutgoingRequest, is_allowed, is_public

_MAX_RETRY_AFTER_S = 900.0
_MAX_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_SHOWN_CHARS = 300
_MIN_HIDDEN_CHARS = 4
_JSON = re.compile(r"(?:[^/]+/)?(?:[^/]+\+)?json")
_TEXT = re.compile(
    r"text/.*|.*[/+]xml|application/"
    r"(?:.*javascript|x-www-form-urlencoded|yaml|x-yaml|toml|csv|jsonl|x-ndjson|graphql|sql)"
)
_CHARSET = re.compile(r"""(?:^|;)\s*charset\s*=\s*["']?([^\s;"']+)""", re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_FAILS_FOR_GOOD = (ForbiddenAddressError, InvalidRequestError, UntrustedCertificateError)
_CANNOT_BE_READ = (ResponseTooLargeError, UnknownEncodingError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseRules:
    """What the node's author allows: hosts that are not public, the size of a body, statuses that are not failures."""

    allow_hosts: Sequence[str]
    max_bytes: int
    ok_codes: Sequence[int]


class ResponseContent(NamedTuple):
    """What a body holds: data, text, or bytes as base64."""

    value: Any
    is_binary: bool


async def fetch(
    request: OutgoingRequest, context: Context, rules: ResponseRules, *, is_host_written: bool
) -> tuple[HttpResponse, ResponseContent]:
    """Send a request and follow redirects; return the last response and its content, or raise what it means.

    A host that the author did not write must be public or in ``allow_hosts``; so must the hosts that redirects lead to.
    """
    is_done = False  # a request that changes something has been answered
    try:
        for _ in range(_MAX_REDIRECTS + 1):
            is_guarded = not is_host_written and not is_allowed(request.url, rules.allow_hosts)
            response = await _send(request, context, rules, is_guarded=is_guarded)
            location = response.headers.get("location")
            if response.status not in _REDIRECTS or location is None:
                return response, _read_content(request, response)
            is_done = is_done or (not request.is_read and request.becomes_get(response.status))
            following = request.redirect(response.status, _resolve_redirect(request, location))
            is_host_written = is_host_written and _is_same_host(request.url, following.url)
            request = following
        raise Permanent(f"{request.redacted}: more than {_MAX_REDIRECTS} redirects")
    except AttemptError as error:
        if is_done:  # so it must not count as unsent, or refused
            raise Transient(f"the first request was done, then redirected: {error}") from None
        raise


async def _send(request: OutgoingRequest, context: Context, rules: ResponseRules, *, is_guarded: bool) -> HttpResponse:
    try:
        return await _open_client(context, is_guarded=is_guarded).send(
            request.method,
            str(request.url),
            headers=request.headers,
            body=request.body,
            max_bytes=rules.max_bytes,
            ok_codes=rules.ok_codes,
            within_s=context.timeout_s,
        )
    except HttpError as error:
        _raise_failure(error, request)
    except asyncio.CancelledError as error:
        ended: BaseException = error
        if not error.is_sent:  # type: ignore[attr-defined]  # set by the client
            ended = Transient(f"{request.redacted}: timed out while connecting", is_unsent=True)
        ended.awaited = request.redacted  # type: ignore[attr-defined]  # for the message of a time-out
        raise ended from None


def _open_client(context: Context, *, is_guarded: bool) -> HttpClient:
    """Return the run's client; connections that the author may use are not lent to what a template names."""
    if is_guarded:
        return context.shared(("http", "guarded"), partial(HttpClient, is_allowed=is_public))
    return context.shared(("http", "any"), HttpClient)


def _raise_failure(error: HttpError, request: OutgoingRequest) -> NoReturn:
    message = f"{request.redacted}: {error}"
    if isinstance(error, ForbiddenAddressError):
        message = (
            f"{request.redacted}: {request.url.host} is not a public address, and a template or redirect leads there; "
            "add it to allow_hosts if that is intended"
        )
    elif isinstance(error, ResponseTooLargeError):
        message = f"{message} (max_bytes)"
    elif isinstance(error, UnknownEncodingError):
        message = f"{message}; leave accept-encoding to the node"
    if isinstance(error, _FAILS_FOR_GOOD) or (isinstance(error, _CANNOT_BE_READ) and request.is_read):
        raise Permanent(message) from None
    raise Transient(message, is_unsent=isinstance(error, NotSentError)) from None


def _resolve_redirect(request: OutgoingRequest, location: str) -> HttpUrl:
    try:
        url = request.url.join(location)
    except (Permanent, ValueError) as error:
        raise Permanent(f"{request.redacted}: redirected to an invalid URL: {error}") from None
    if request.url.scheme == "https" and url.scheme == "http":
        raise Permanent(
            f"{request.redacted}: redirected from https to {url.redacted}, which anyone can read; "
            "if that is intended, request that URL itself"
        )
    return url


def _is_same_host(before: HttpUrl, after: HttpUrl) -> bool:
    """Whether a redirect stays on the host that the author wrote, possibly moving to https."""
    is_upgrade = (before.scheme, before.port, after.scheme, after.port) == ("http", 80, "https", 443)
    return before.host == after.host and (before.port == after.port or is_upgrade)


# --- a failure ---


def _build_error(response: HttpResponse, request: OutgoingRequest) -> AttemptError:
    """Turn the status of a response that is not good into an error."""
    status = response.status
    message = f"{request.redacted} returned {status} {_phrase(status)}".rstrip()
    if excerpt := _excerpt(response.body, _list_secrets(request)):
        message = f"{message}: {excerpt}"
    wait_s = read_retry_after(response.headers)
    if wait_s is not None:
        wait_s = min(wait_s, _MAX_RETRY_AFTER_S)
    if status == 429 or (status == 503 and wait_s is not None):
        return Throttled(message, retry_after_s=wait_s)
    if status == 503:
        return Transient(message, is_unsent=True)
    if status in (408, 425) or status >= 500:
        return Transient(message, retry_after_s=wait_s)
    return Permanent(message)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _excerpt(body: bytes, hidden: Iterable[str]) -> str:
    """Return the beginning of a body for a message, without what must not be repeated."""
    text = body[: 16 * _MAX_SHOWN_CHARS].decode(errors="replace")
    for each in sorted(hidden, key=len, reverse=True):
        if len(each) >= _MIN_HIDDEN_CHARS:
            text = text.replace(each, "…")
    text = _UNPRINTABLE.sub(" ", text).strip()
    if len(text) > _MAX_SHOWN_CHARS:
        text = f"{text[:_MAX_SHOWN_CHARS]}…"
    return text


def _list_secrets(request: OutgoingRequest) -> set[str]:
    """Return what was sent and must not be repeated: credentials, and the values of the query."""
    found = {pair.partition("=")[2] for pair in request.url.query.split("&")}
    for name in ("authorization", "cookie"):
        found.update(request.headers.get(name, "").split(" "))
    return found


# --- the content ---


def _read_content(request: OutgoingRequest, response: HttpResponse) -> ResponseContent:
    if not response.is_good:
        raise _build_error(response, request)
    try:
        return decode_content(response)
    except Transient as error:
        raise Transient(f"{request.redacted}: {error}") from None


def decode_content(response: HttpResponse) -> ResponseContent:
    """Read a body by its content type; Transient if it does not match."""
    if response.is_empty and not response.body:
        return ResponseContent(None, is_binary=False)
    kind, charset = _parse_content_type(response.headers.get("content-type", ""))
    if _JSON.fullmatch(kind):
        return ResponseContent(_decode_json(response.body, charset), is_binary=False)
    if _TEXT.fullmatch(kind) or charset or (not kind and _is_utf8(response.body)):
        return ResponseContent(_decode_text(response.body, charset), is_binary=False)
    return ResponseContent(base64.b64encode(response.body).decode(), is_binary=True)


@lru_cache(maxsize=256)
def _parse_content_type(header: str) -> tuple[str, str]:
    """Return a content type and its charset, "" if it has none."""
    kind, _, parameters = header.partition(";")
    charset = _CHARSET.search(parameters)
    return kind.strip().lower(), charset[1] if charset else ""


def _decode_json(body: bytes, charset: str) -> Any:
    text = _decode_text(body, charset)
    try:
        return STRICT.decode(text)
    except (ValueError, RecursionError) as error:
        raise Transient(f"response has a JSON content type but is not valid JSON: {message_of(error)}") from None


def _decode_text(body: bytes, charset: str) -> str:
    try:
        if not charset:
            return body.decode("utf-8-sig")
        name = codecs.lookup(charset).name
        return body.decode("utf-8-sig" if name == "utf-8" else name)
    except LookupError:
        raise Transient(f"response has the unknown charset {charset!r:.40}") from None
    except UnicodeError as error:
        raise Transient(f"response is not valid {charset or 'utf-8'} (cut off?): {message_of(error)}") from None


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
