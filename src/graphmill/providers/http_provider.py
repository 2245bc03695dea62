"""What all HTTP providers share: one request, one response, and errors that repeat no secret.

A protocol says how a request is written and a response is read, see ``openai``, ``anthropic`` and ``gemini``.
"""

from __future__ import annotations

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import msgspec

from graphmill.core.errors import AttemptError, Permanent, Throttled, Transient, Unavailable, cut, message_of
from graphmill.core.json import STRICT, json_bytes
from graphmill.core.model_call import ModelRequest, ModelResponse
from graphmill.core.result import CONTENT_FILTER
from graphmill.core.usage import LOST, RateLimits, Usage
from graphmill.graph.secrets import Redactor
from graphmill.http.connection import HttpClient, HttpResponse
from graphmill.http.failures import kind_of_status
from graphmill.http.faults import (
    HttpError,
    InvalidRequestError,
    NotSentError,
    ResponseTooLargeError,
    UntrustedCertificateError,
)
from graphmill.http.headers import read_plain_limits

_MAX_RESPONSE_BYTES = 32 << 20
_MOST_TOKENS = 1e12
_MAX_MESSAGE_CHARS = 500
_MAX_SAID_CHARS = 2000
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_A_HEADER = re.compile(r"[^\x20-\x7e\x80-\U0010ffff]|[\ud800-\udfff]|^ | \Z")
_SET_BY_CLIENT = frozenset({"content-length", "transfer-encoding"})
_ERROR_TEXT = re.compile(r'"(message|type|code|status|detail)"\s*:\s*"((?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)')
_REMEDIES = {
    401: "check the key",
    402: "add credit",
    403: "check what the key may use",
    404: "check the model's name and the address",
}
_decode = msgspec.json.Decoder().decode


class ErrorDetails(NamedTuple):
    """What the body of an error says: a message for people, and words for programs."""

    message: str = ""
    type: str = ""
    code: str = ""


class HttpProvider(ABC):
    """A provider over HTTP; subclasses know one protocol."""

    name: ClassVar[str]
    default_address: ClassVar[str]
    address_variable: ClassVar[str]
    key_variable: ClassVar[str]
    supports_schema: ClassVar[bool] = True
    own_headers: ClassVar[Mapping[str, str]] = MappingProxyType({})

    # --- what a protocol defines ---

    @abstractmethod
    def build_url(self, address: str, model: str | None) -> str:
        """Return the URL that calls a model, or without a model the one that lists them."""

    @abstractmethod
    def build_credentials(self, key: str) -> Mapping[str, str]:
        """Return the headers that carry a key."""

    @abstractmethod
    def build_body(self, request: ModelRequest, address: str) -> dict[str, Any]:
        """Write a request, without its ``extra``; Permanent if the protocol cannot express it."""

    @abstractmethod
    def read_response(self, data: dict[str, Any], request: ModelRequest, limits: RateLimits | None) -> ModelResponse:
        """Read a successful response; Transient if it holds no answer."""

    @abstractmethod
    def read_usage(self, data: dict[str, Any]) -> Usage:
        """Read what a response has used; what it leaves out counts as 0."""

    @abstractmethod
    def read_model_names(self, data: dict[str, Any]) -> list[str]:
        """Read a list of models."""

    @abstractmethod
    def read_error(self, data: dict[str, Any]) -> ErrorDetails:
        """Read the body of an error."""

    @abstractmethod
    def classify_error(self, status: int, details: ErrorDetails, data: dict[str, Any]) -> type[AttemptError] | None:
        """Return the kind of an error by what it says; None leaves it to the status."""

    def find_hidden_status(self, data: dict[str, Any]) -> int | None:
        """Return the status of an error inside a successful response; None if there is none."""
        return None if data.get("error") is None else 500

    def read_limits(self, headers: Mapping[str, str], data: dict[str, Any]) -> RateLimits | None:
        """Read what a response says of rate limits."""
        del data
        return read_plain_limits(headers)

    # --- what callers use ---

    def open(self) -> HttpClient:
        """Make the client that the calls of a run share."""
        return HttpClient()

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> AttemptError:
        """Turn an error response into an exception."""
        return self._build_error(status, headers, parse_error_object(body))

    async def complete(
        self,
        request: ModelRequest,
        *,
        session: HttpClient,
        address: str,
        key: str | None,
        headers: Mapping[str, str],
        timeout_s: float | None,
    ) -> ModelResponse:
        """Call the model once; return the answer, or raise why there is none."""
        try:
            body = self.build_body(request, address)
            if request.extra:
                body = _merge(body, request.extra)
            written = _write_json(body)
            received = await _send(
                session, self.build_url(address, request.model), self._headers(key, headers), written, timeout_s
            )
            response = self._read(received, request)
        except AttemptError as error:
            error.args = (_redact(self._name_error(error), _list_secrets(address, key, headers)),)
            raise error from None
        if response.reason:
            reason = _redact(response.reason, _list_secrets(address, key, headers))
            response = msgspec.structs.replace(response, reason=reason)
        return response

    async def models(
        self, *, session: HttpClient, address: str, key: str | None, headers: Mapping[str, str], timeout_s: float | None
    ) -> list[str]:
        """List the models."""
        try:
            url = self.build_url(address, None)
            received = await _send(session, url, self._headers(key, headers), None, timeout_s)
            return self.read_model_names(self._parse(received))
        except AttemptError as error:
            error.args = (_redact(self._name_error(error), _list_secrets(address, key, headers)),)
            raise error from None

    def _headers(self, key: str | None, headers: Mapping[str, str]) -> Mapping[str, str]:
        return _build_headers(self, key, tuple(headers.items()))

    def _read(self, received: HttpResponse, request: ModelRequest) -> ModelResponse:
        data = self._parse(received)
        limits = self.read_limits(received.headers, data)
        try:
            return self.read_response(data, request, limits)
        except AttemptError as error:
            error.usage, error.limits = error.usage or LOST, limits
            raise

    def _parse(self, received: HttpResponse) -> dict[str, Any]:
        if not received.is_good:
            raise self.classify(received.status, received.headers, received.body)
        try:
            data = parse_object(received.body)
        except AttemptError as error:
            error.usage, error.limits = LOST, self.read_limits(received.headers, {})
            raise
        status = self.find_hidden_status(data)
        if status is None:
            return data
        hidden = self._build_error(status, received.headers, data)
        hidden.usage = self.read_usage(data)
        raise hidden

    def _build_error(self, status: int, headers: Mapping[str, str], data: dict[str, Any]) -> AttemptError:
        details = self.read_error(data)
        kind = self.classify_error(status, details, data) or kind_of_status(status)
        return build_error(self.name, status, details, kind=kind, limits=self.read_limits(headers, data))

    def _name_error(self, error: AttemptError) -> str:
        text = str(error)
        return text if text.startswith(self.name) else f"{self.name}: {text}"


# --- sending a request ---


async def _send(
    client: HttpClient, url: str, headers: Mapping[str, str], body: bytes | None, timeout_s: float | None
) -> HttpResponse:
    """Send a request once and read the response within a time limit; AttemptError says what went wrong.

    A CancelledError has a ``usage``, None if the request was not sent: asyncio accepts no other exception in its place.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await client.send(
                "GET" if body is None else "POST",
                url,
                headers=headers,
                body=body,
                max_bytes=_MAX_RESPONSE_BYTES,
                within_s=timeout_s,
            )
    except TimeoutError:
        raise _count_request(Transient(f"no complete response within {timeout_s:g} s")) from None
    except HttpError as error:
        raise _translate(error) from None
    except asyncio.CancelledError as error:
        error.usage = LOST if error.is_sent else None  # type: ignore[attr-defined]  # is_sent: set by the client
        raise


def _translate(error: HttpError) -> AttemptError:
    """Say what an error means: without a connection the provider is unavailable, and nothing was used."""
    if isinstance(error, UntrustedCertificateError):
        return Unavailable(str(error))
    if isinstance(error, InvalidRequestError):
        return Unavailable(f"{error}; check the address (like https://host/v1) and the headers")
    if isinstance(error, NotSentError):
        return Unavailable(f"{error}; check the address, and that a server runs there")
    if isinstance(error, ResponseTooLargeError):
        return _count_request(Permanent(str(error)))
    return _count_request(Transient(str(error)))


def _count_request(error: AttemptError) -> AttemptError:
    """Note that a request was sent, at an unknown cost."""
    error.usage = LOST
    return error


@lru_cache(maxsize=16)
def _build_headers(provider: HttpProvider, key: str | None, headers: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return all headers of a request; Unavailable if one cannot be sent."""
    if key and _NOT_IN_A_HEADER.search(key):
        raise Unavailable("the key contains a line end, a space around it or another invalid character; set it again")
    for name, value in headers:
        if not _HEADER_NAME.fullmatch(name) or _NOT_IN_A_HEADER.search(value):
            raise Unavailable(
                f"the header {name!r:.60} is not valid: names have only letters and dashes, values no line ends"
            )
    own = {name.lower(): value for name, value in headers if name.lower() not in _SET_BY_CLIENT}
    credentials = provider.build_credentials(key) if key else {}
    return {
        "accept": "application/json",
        "content-type": "application/json",
        **provider.own_headers,
        **credentials,
        **own,
    }


@lru_cache(maxsize=256)
def join_url(address: str, *parts: str, query: str = "") -> str:
    """Return a URL below an address, with the address's own query."""
    try:
        scheme, host, path, own, _ = urlsplit(address)
    except ValueError:
        scheme = host = ""
    if scheme not in ("http", "https") or not host:
        raise Unavailable("the address must be a URL like https://host/v1")
    return urlunsplit((scheme, host, "/".join([path.rstrip("/"), *parts]), "&".join(filter(None, [own, query])), ""))


def _merge(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Put extra entries over existing ones, at any depth; null removes one."""
    merged = dict(body)
    for name, value in extra.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(name), dict):
            merged[name] = _merge(merged[name], value)
        else:
            merged[name] = value
    return merged


def _write_json(body: dict[str, Any]) -> bytes:
    try:
        return json_bytes(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"the request cannot be written as JSON: {message_of(error)}") from None


def _redact(text: str, secrets: Iterable[str]) -> str:
    return cut(Redactor(values=tuple(dict.fromkeys(secrets))).text(text), _MAX_MESSAGE_CHARS)


def _list_secrets(address: str, key: str | None, headers: Mapping[str, str]) -> Iterator[str]:
    """Return everything that grants access: the key, header values, and the address's query and password."""
    yield key or ""
    for value in headers.values():
        yield from (value, *value.split())
    rest, _, query = address.partition("?")
    yield from (pair.partition("=")[2] for pair in query.split("&"))
    yield rest.partition("//")[2].rpartition("@")[0].partition(":")[2]


# --- errors ---


_FILTERED = {"content_filter", "content_policy_violation"}
_MAY_BE_BILLED = (504, 524)  # a gateway did not wait for the answer


def build_error(
    provider: str, status: int, details: ErrorDetails, *, kind: type[AttemptError], limits: RateLimits | None = None
) -> AttemptError:
    """Build the exception for an error response: one request at no cost, unless only a gateway gave up."""
    message = cut(" ".join(details.message.split()), _MAX_SAID_CHARS)
    text = f"{provider} returned {status}"
    if said := " ".join(filter(None, [message, _program_word(details)])):
        text = f"{text}: {said}"
    if kind is Unavailable and (remedy := _remedy(status)):
        text = f"{text}; {remedy}"
    error = kind(text)
    if _FILTERED & {details.code.lower(), details.type.lower()}:
        error.cause = CONTENT_FILTER
    if limits is not None and isinstance(error, Throttled | Transient):
        error.retry_after_s = limits.retry_after_s
    error.usage, error.limits = LOST if status in _MAY_BE_BILLED else Usage(requests=1), limits
    return error


def build_empty_error(message: str, usage: Usage) -> Transient:
    """Build the exception for a successful response without an answer."""
    error = Transient(message)
    error.usage = usage
    return error


def _remedy(status: int) -> str:
    if 300 <= status < 400:
        return "the address has moved; set the new one"
    return _REMEDIES.get(status, "")


def _program_word(details: ErrorDetails) -> str:
    word = details.code or details.type
    if word in ("", details.message):
        return ""
    return f"({cut(word, 60)})"


# --- reading JSON from others ---


def parse_object(body: bytes) -> dict[str, Any]:
    """Read a body as a JSON object, whatever its content type; Unavailable for a web page, otherwise Transient."""
    try:
        data = _parse_json(body)
    except UnicodeDecodeError as error:
        raise Transient(f"response is not valid UTF-8 (cut off?): {error.reason} at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        if body.lstrip()[:1] == b"<":
            raise Unavailable(
                "got a web page instead of a response; check the address, and any proxy in front of it"
            ) from None
        raise Transient(f"response is not valid JSON (cut off?): {message_of(error)}") from None
    if not isinstance(data, dict):
        raise Transient(f"response must be a JSON object, got {type(data).__name__}")
    return data


def _parse_json(body: bytes) -> Any:
    try:
        return _decode(body)
    except (ValueError, RecursionError):  # msgspec's error is a ValueError; json reads larger numbers, and says where
        return STRICT.decode(body.decode())


def parse_error_object(body: bytes) -> dict[str, Any]:
    """Read the body of an error as far as possible, even if it was cut off."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = {}
        if body.lstrip()[:1] == b"{":
            data["error"] = _find_texts(body)
    if isinstance(data, list) and data:
        data = data[0]
    return data if isinstance(data, dict) else {}


def _find_texts(body: bytes) -> dict[str, str]:
    """Find the texts of an error object that was cut off."""
    error = body.partition(b'"error"')[2] or body
    found: dict[str, str] = dict(reversed(_ERROR_TEXT.findall(error.decode(errors="replace"))))  # the first of each
    return {name: json.loads(f'"{text}"', strict=False) for name, text in found.items()}


def value_at(data: Any, *path: str | int) -> Any:
    """Return the value at a path through data, None if there is none."""
    for key in path:
        if type(data) is dict:
            data = data.get(key)
        elif type(data) is list and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            return None
    return data


def text_at(data: Any, *path: str | int) -> str:
    """Return the text at a path, "" if there is none."""
    found = value_at(data, *path)
    return found if isinstance(found, str) else ""


def has_count(data: Any, *path: str | int) -> bool:
    """Whether there is a count at a path."""
    found = value_at(data, *path)
    return type(found) in (int, float) and 0 <= found < _MOST_TOKENS  # a bool is not a count


def count_at(data: Any, *path: str | int) -> int:
    """Return the count at a path, 0 if there is none."""
    return int(value_at(data, *path)) if has_count(data, *path) else 0


def list_at(data: Any, *path: str | int) -> list[Any]:
    """Return the list at a path, an empty one if there is none."""
    found = value_at(data, *path)
    return found if isinstance(found, list) else []


def logprob_at(data: Any, name: str) -> float:
    """Return the logarithm of a probability, 0 if there is none."""
    found = value_at(data, name)
    return float(found) if isinstance(found, int | float) else 0.0
