"""What all providers over HTTP do in the same way: one request, one answer, and an error that repeats no secret."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import urlsplit, urlunsplit

import msgspec

from graphmill.core.errors import AttemptError, Permanent, Unavailable, cut, message_of
from graphmill.core.json import json_bytes
from graphmill.core.model_call import ModelRequest, ModelResponse
from graphmill.core.rate_limits import RateLimits
from graphmill.core.usage import Usage
from graphmill.graph.secrets import Redactor
from graphmill.providers.answer import Answer, error_object_of, object_of
from graphmill.providers.limit_headers import plain_limits
from graphmill.providers.verdict import Said, error_of, kind_of_status
from graphmill.providers.wire import Sent, Wire

_MOST_MESSAGE_CHARS = 500
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_A_HEADER = re.compile(r"[^\x20-\x7e\x80-\U0010ffff]|[\ud800-\udfff]|^ | \Z")


class HttpProvider(ABC):
    """A provider that says how its requests are written and its answers read; the rest is the same for all."""

    name: ClassVar[str]
    default_address: ClassVar[str]
    address_variable: ClassVar[str]
    key_variable: ClassVar[str]
    supports_schema: ClassVar[bool] = True
    own_headers: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @abstractmethod
    def url(self, address: str, model: str | None) -> str:
        """Give where a model is asked, or where the models are listed."""

    @abstractmethod
    def credentials(self, key: str) -> Mapping[str, str]:
        """Give the headers that carry a key."""

    @abstractmethod
    def body(self, request: ModelRequest, address: str) -> dict[str, Any]:
        """Write a request, without its extra; Permanent says what this protocol can not ask for."""

    @abstractmethod
    def response(self, data: dict[str, Any], request: ModelRequest, limits: RateLimits | None) -> ModelResponse:
        """Read an answer that came with success; Transient if there is none in it."""

    @abstractmethod
    def usage(self, data: dict[str, Any]) -> Usage:
        """Read what an answer has used; what it does not tell counts as none."""

    @abstractmethod
    def model_names(self, data: dict[str, Any]) -> list[str]:
        """Read a list of models."""

    @abstractmethod
    def said(self, data: dict[str, Any]) -> Said:
        """Read the body of an error."""

    @abstractmethod
    def kind(self, status: int, said: Said, data: dict[str, Any]) -> type[AttemptError] | None:
        """Give the kind of an error by what it says; None leaves it to its status."""

    def hidden_error(self, data: dict[str, Any]) -> int | None:
        """Give the status that an answer with success should have had, because it holds an error; None if it does not."""
        return None if data.get("error") is None else 500

    def limits(self, headers: Mapping[str, str], data: dict[str, Any]) -> RateLimits | None:
        """Read what an answer says of rate limits."""
        del data
        return plain_limits(headers)

    def open(self) -> Wire:
        """Make the pool of connections."""
        return Wire()

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> AttemptError:
        """Say what an answer that is an error means."""
        return self._error(status, headers, error_object_of(body))

    async def complete(
        self,
        request: ModelRequest,
        *,
        session: Wire,
        address: str,
        key: str | None,
        headers: Mapping[str, str],
        timeout_s: float | None,
    ) -> ModelResponse:
        """Ask once; give the answer, or raise why there is none."""
        try:
            body = self.body(request, address)
            if request.extra:
                body = _merged(body, request.extra)
            sent = Sent(self.url(address, request.model), self._headers(key, headers), _written(body))
            response = self._read(await session.send(sent, timeout_s=timeout_s), request)
        except AttemptError as error:
            error.args = (_redacted(self._named(error), _secrets(address, key, headers)),)
            raise error from None
        if not response.reason:
            return response
        return msgspec.structs.replace(response, reason=_redacted(response.reason, _secrets(address, key, headers)))

    async def models(
        self, *, session: Wire, address: str, key: str | None, headers: Mapping[str, str], timeout_s: float | None
    ) -> list[str]:
        """List the models."""
        try:
            answer = await session.send(Sent(self.url(address, None), self._headers(key, headers)), timeout_s=timeout_s)
            return self.model_names(self._object(answer))
        except AttemptError as error:
            error.args = (_redacted(self._named(error), _secrets(address, key, headers)),)
            raise error from None

    def _headers(self, key: str | None, headers: Mapping[str, str]) -> Mapping[str, str]:
        return _checked(self, key, tuple(headers.items()))

    def _read(self, answer: Answer, request: ModelRequest) -> ModelResponse:
        data = self._object(answer)
        limits = self.limits(answer.headers, data)
        try:
            return self.response(data, request, limits)
        except AttemptError as error:
            error.usage, error.limits = error.usage or Usage(requests=1), limits
            raise

    def _object(self, answer: Answer) -> dict[str, Any]:
        if not answer.is_success:
            raise self.classify(answer.status, answer.headers, answer.body)
        try:
            data = object_of(answer.body)
        except AttemptError as error:
            error.usage, error.limits = Usage(requests=1), self.limits(answer.headers, {})
            raise
        status = self.hidden_error(data)
        if status is None:
            return data
        hidden = self._error(status, answer.headers, data)
        hidden.usage = self.usage(data)
        raise hidden

    def _error(self, status: int, headers: Mapping[str, str], data: dict[str, Any]) -> AttemptError:
        said = self.said(data)
        kind = self.kind(status, said, data) or kind_of_status(status)
        return error_of(self.name, status, said, kind=kind, limits=self.limits(headers, data))

    def _named(self, error: AttemptError) -> str:
        return str(error) if str(error).startswith(self.name) else f"{self.name}: {error}"


@lru_cache(maxsize=16)
def _checked(provider: HttpProvider, key: str | None, headers: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Give all headers of a request; Unavailable says which can not be sent."""
    if key and _NOT_IN_A_HEADER.search(key):
        raise Unavailable(
            "the key holds a line's end, a space around it or another character that no header can carry; set it anew"
        )
    for name, value in headers:
        if not _NAME.fullmatch(name) or _NOT_IN_A_HEADER.search(value):
            raise Unavailable(
                f"the header {name!r:.60} can not be sent: a name is of letters and dashes, a value without line's ends"
            )
    return {
        "content-type": "application/json",
        **provider.own_headers,
        **(provider.credentials(key) if key else {}),
        **dict(headers),
    }


def _redacted(text: str, secrets: Iterable[str]) -> str:
    return cut(Redactor(values=tuple(dict.fromkeys(secrets))).text(text), _MOST_MESSAGE_CHARS)


def _secrets(address: str, key: str | None, headers: Mapping[str, str]) -> Iterator[str]:
    """Give all that lets a call in: the key, the values of headers, and what stands in the address beside host and path."""
    yield key or ""
    for value in headers.values():
        yield from (value, *value.split())
    rest, _, query = address.partition("?")
    yield from (pair.partition("=")[2] for pair in query.split("&"))
    yield rest.partition("//")[2].rpartition("@")[0].partition(":")[2]


@lru_cache(maxsize=256)
def joined(address: str, *parts: str, query: str = "") -> str:
    """Give the URL of a place below an address, whose own query is kept."""
    try:
        scheme, host, path, own, _ = urlsplit(address)
    except ValueError:
        scheme = host = ""
    if scheme not in ("http", "https") or not host:
        raise Unavailable("the address is no URL; it is like https://host/v1")
    return urlunsplit((scheme, host, "/".join([path.rstrip("/"), *parts]), "&".join(filter(None, [own, query])), ""))


def _merged(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Put extra entries over those that are there, at any depth; null takes one out."""
    made = dict(body)
    for name, value in extra.items():
        if value is None:
            made.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(made.get(name), dict):
            made[name] = _merged(made[name], value)
        else:
            made[name] = value
    return made


def _written(body: dict[str, Any]) -> bytes:
    try:
        return json_bytes(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"the request is no JSON: {message_of(error)}") from None
