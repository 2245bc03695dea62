"""What an http node sends: the request, its URL, and which hosts it may reach.

What the author wrote is structure; what a template's value adds is data, which cannot end its part.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urljoin

from graphmill.core.errors import Permanent, message_of
from graphmill.core.json import json_bytes
from graphmill.graph.node_params import Filled
from graphmill.http.connection import ACCEPTED
from graphmill.nodes.text import param_bytes, param_text

READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS = (*sorted(READ_METHODS), "DELETE", "PATCH", "POST", "PUT")
_SET_BY_CLIENT = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_A_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]|^[ \t]|[ \t]\Z")
_SENT_TO_OTHER_ORIGINS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
_BODY_HEADERS = frozenset({"content-type", "content-encoding", "content-language"})

_PORTS = {"http": 80, "https": 443}
_AS_WRITTEN = "/:?#[]@!$&'()*+,;=%~"
_URL_HEAD = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#\\]*)(?=[/?#\\])")
_IN_HOST = re.compile(r"[\w.:\[\]-]*")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]*)(?::([0-9]{0,5}))?")
_HOST_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_.])?")

_ALLOWED_HOST = re.compile(
    r"(?P<host>\*|(?:\*\.)?[a-z0-9_][a-z0-9_.-]*|\[[0-9a-f:.]+\]|[0-9a-f]*:[0-9a-f:.]*:[0-9a-f:.]*)"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
_NAT64 = IPv6Network("64:ff9b::/96")
_PUBLIC_V6 = IPv6Network("2000::/3")
_NOT_PUBLIC_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_NOT_PUBLIC_V4 = tuple(
    IPv4Network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
        *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",  # a cloud's metadata server, although it looks public
    )
)


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """A URL as it is sent; ``host`` is in lower case, an IPv6 address without its brackets."""

    scheme: str
    host: str
    port: int
    path: str
    query: str = ""

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port."""
        return self.scheme, self.host, self.port

    @property
    def _base(self) -> str:
        host = self.host
        if ":" in host:
            host = f"[{host}]"
        if self.port != _PORTS[self.scheme]:
            host = f"{host}:{self.port}"
        return f"{self.scheme}://{host}"

    def __str__(self) -> str:
        target = f"{self._base}{self.path}"
        return f"{target}?{self.query}" if self.query else target

    @property
    def redacted(self) -> str:
        """The URL for messages: without the values of its query, which are often keys."""
        if not self.query:
            return str(self)
        shown = []
        for pair in self.query.split("&"):
            name, has_value, _ = pair.partition("=")
            shown.append(f"{name}=…" if has_value else "…")
        return f"{self._base}{self.path}?{'&'.join(shown)}"

    def with_query(self, more: str) -> HttpUrl:
        """Add pairs to the query."""
        return replace(self, query="&".join(filter(None, [self.query, more])))

    def join(self, location: str) -> HttpUrl:
        """Resolve the location of a redirect."""
        return parse_url(urljoin(str(self), location))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRequest:
    """A request as it is sent; header names are in lower case."""

    method: str
    url: HttpUrl
    headers: Mapping[str, str]
    body: bytes | None = None

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing on the server."""
        return self.method in READ_METHODS

    @property
    def redacted(self) -> str:
        """Method and URL for messages."""
        return f"{self.method} {self.url.redacted}"

    def becomes_get(self, status: int) -> bool:
        """Whether this redirect says that the request is done, and its result is to be read elsewhere."""
        return (status == 303 and self.method != "HEAD") or (status in (301, 302) and self.method == "POST")

    def redirect(self, status: int, url: HttpUrl) -> OutgoingRequest:
        """Return the request that follows a redirect, as browsers do; another origin gets no credentials."""
        headers = dict(self.headers)
        method, body = self.method, self.body
        if self.becomes_get(status):
            method, body = "GET", None
            dropped = {*_BODY_HEADERS, "idempotency-key"}
            headers = {name: value for name, value in headers.items() if name not in dropped}
        if url.origin != self.url.origin:
            headers = {name: value for name, value in headers.items() if name in _SENT_TO_OTHER_ORIGINS}
        return replace(self, method=method, url=url, headers=headers, body=body)


# --- headers, credentials and body ---


def header_problem(name: str, value: str) -> str | None:
    """Say why a header cannot be sent, without repeating its value."""
    if not _HEADER_NAME.fullmatch(name):
        return f"{name!r:.60} is not a valid header name"
    if name.lower() in _SET_BY_CLIENT:
        return f"{name} is set by the node itself; leave it out"
    if _NOT_IN_A_HEADER.search(value):
        return (
            f"{name}: the value has a line end, another control character, half a surrogate pair, or spaces around it"
        )
    return None


def build_headers(given: Mapping[str, Any]) -> dict[str, str]:
    """Return headers by name in lower case, without those that are null; Permanent if one cannot be sent."""
    headers: dict[str, str] = {}
    for name, value in given.items():
        if value is None:
            continue
        text = param_text(value, f"headers.{name}")
        if problem := header_problem(name, text):
            raise Permanent(f"headers: {problem}")
        headers[name.lower()] = text
    headers.setdefault("accept", "*/*")
    headers.setdefault("accept-encoding", ACCEPTED)
    headers.setdefault("user-agent", "graphmill")
    return headers


def bearer_header(token: str) -> str:
    """Return the authorization header for a token."""
    if _NOT_IN_A_HEADER.search(token):
        raise Permanent("auth.bearer: the token has a line end, a control character, or spaces around it")
    return f"Bearer {token}"


def basic_header(user: str, password: str) -> str:
    """Return the authorization header for a user and password."""
    if ":" in user:
        raise Permanent("auth.basic.user: a user name cannot contain a colon")
    return f"Basic {base64.b64encode(param_bytes(f'{user}:{password}', 'auth.basic')).decode()}"


def encode_query(given: Mapping[str, Any]) -> str:
    """Write pairs as a query: a list gives one pair for each entry, null none, a mapping its JSON."""
    return "&".join(_encode_pairs(given, "params"))


def encode_form(given: Mapping[str, Any]) -> bytes:
    """Write pairs as the body of a form."""
    return "&".join(_encode_pairs(given, "form")).encode()


def encode_body(value: Any) -> tuple[bytes, str]:
    """Return a body and its content type: text as it is, anything else as JSON."""
    if isinstance(value, str):
        return param_bytes(value, "body"), "text/plain; charset=utf-8"
    try:
        return json_bytes(value), "application/json"
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"body: not JSON: {message_of(error)}") from error


def _encode_pairs(given: Mapping[str, Any], param: str) -> Iterator[str]:
    for name, value in given.items():
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                yield f"{_percent_encode(name, param)}={_percent_encode(param_text(each, param), param)}"


# --- the URL ---


class BuiltUrl(NamedTuple):
    """A URL, and whether the author wrote its host, or a template's value did."""

    url: HttpUrl
    is_host_written: bool


def build_url(pieces: Iterable[str | Filled]) -> BuiltUrl:
    """Put a URL together from text and template values; Permanent says what is wrong with it.

    A value at the very beginning is a URL, or the beginning of one; in the host it is part of a name; after the host
    it is percent-encoded.
    """
    head, is_host_written = "", True
    waiting = list(pieces)
    while waiting and not _URL_HEAD.match(head):
        piece = waiting.pop(0)
        if not isinstance(piece, str):
            is_host_written = False
            if head:
                _check_in_host(piece.text)
            head += piece.text if head else piece.text.strip()
        else:
            head += piece
    scheme, host, port, rest = _split_head(head)
    path, query = _build_path_and_query([rest, *waiting])
    return BuiltUrl(HttpUrl(scheme, host, port, path, query), is_host_written)


def parse_url(text: str) -> HttpUrl:
    """Read a whole URL."""
    return build_url([text]).url


def _percent_encode(text: str, param: str = "url") -> str:
    return quote(param_bytes(text, param), safe="")


def _check_in_host(text: str) -> None:
    if not _IN_HOST.fullmatch(text):
        raise Permanent(
            f"a value in the url's host must be part of a name or a port, got {text!r:.60}; "
            "write the / after the host, or give the whole URL as one template"
        )


@lru_cache(maxsize=256)
def _split_head(text: str) -> tuple[str, str, int, str]:
    """Return scheme, host, port and what follows them."""
    found = _URL_HEAD.match(text) or _URL_HEAD.match(f"{text}/")
    if found is None:
        raise Permanent(f"url must start with http:// or https:// and a host, got {_safe_beginning(text)!r}")
    scheme, authority = found["scheme"].lower(), found["authority"]
    if scheme not in _PORTS:
        raise Permanent(f"url must start with http:// or https://, got {scheme}://")
    if "@" in authority:
        raise Permanent("url cannot contain a user; use auth: {basic: {user: …, password: {env: NAME}}}")
    split = _AUTHORITY.fullmatch(authority)
    port = int(split[2] or _PORTS[scheme]) if split else -1
    if split is None or not 0 < port < 65536:
        raise Permanent(f"{authority!r:.80} is not a valid host, with or without a port")
    return scheme, _parse_host(split[1]), port, text[found.end() :]


def _safe_beginning(text: str) -> str:
    """Return the beginning of what is not a URL, without the parts that could be a secret."""
    return re.split(r"[?#]", text.rpartition("@")[2], maxsplit=1)[0][:60]


def _parse_host(text: str) -> str:
    try:
        if text.startswith("["):
            return str(IPv6Address(text[1:-1]))
        name = text.lower() if text.isascii() else _to_ascii(text)
    except ValueError as error:
        raise Permanent(f"{text!r:.80} is not a valid host") from error
    if not _HOST_NAME.fullmatch(name):
        raise Permanent(f"{text!r:.80} is not a valid host")
    return name


def _to_ascii(name: str) -> str:
    import idna  # noqa: PLC0415  only needed for names beyond ASCII

    return idna.encode(name, uts46=True).decode()


class _WrittenPart(NamedTuple):
    """A written part of a URL after its host: path segments, a query after a ``?``; ``is_last`` if a ``#`` follows."""

    segments: tuple[str, ...]
    query: str | None
    is_last: bool


@lru_cache(maxsize=256)
def _split_written(text: str, *, is_path: bool) -> _WrittenPart:
    written, fragment, _ = quote(text, safe=_AS_WRITTEN, errors="surrogateescape").partition("#")
    if not is_path:
        return _WrittenPart((), written, bool(fragment))
    path, mark, query = written.partition("?")
    return _WrittenPart(tuple(path.split("/")), query if mark else None, bool(fragment))


def _build_path_and_query(pieces: list[str | Filled]) -> tuple[str, str]:
    segments: list[tuple[str, bool]] = [("", False)]  # with whether a value is in it
    query: str | None = None
    for piece in pieces:
        if not isinstance(piece, str):
            value = _percent_encode(piece.text)
            if query is None:
                segments[-1] = segments[-1][0] + value, True
            else:
                query += value
            continue
        part = _split_written(piece, is_path=query is None)
        if query is None:
            first, *more = part.segments
            segments[-1] = segments[-1][0] + first, segments[-1][1]
            segments += [(segment, False) for segment in more]
        if part.query is not None:
            query = f"{query or ''}{part.query}"
        if part.is_last:
            break
    return _build_path(segments), query or ""


def _build_path(segments: list[tuple[str, bool]]) -> str:
    for segment, has_value in segments:
        if has_value and unquote(segment) in ("", ".", ".."):
            raise Permanent(
                f"a value makes a whole part of the url's path {unquote(segment)!r}, which would name another path; "
                "give a value that is not empty, '.' or '..'"
            )
    return "/" + "/".join(segment for segment, _ in segments).removeprefix("/")


# --- which hosts may be reached ---


@lru_cache(maxsize=1024)
def is_public(address: str) -> bool:
    """Whether an IP address belongs to the internet at large; by our own lists, as Python's vary between versions."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        inner = found.ipv4_mapped
        if found in _NAT64:
            inner = IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is None:
            return found in _PUBLIC_V6 and not any(found in network for network in _NOT_PUBLIC_V6)
        found = inner
    return not any(found in network for network in _NOT_PUBLIC_V4)


def is_allowed(url: HttpUrl, allow_hosts: Sequence[str]) -> bool:
    """Whether ``allow_hosts`` lists a URL's host, by ``name``, ``*.name`` (all below it), ``*``, or with ``:port``."""
    return any(_matches(url, entry) for entry in allow_hosts)


def is_valid_entry(text: str) -> bool:
    """Whether a text is a valid entry of ``allow_hosts``."""
    return _ALLOWED_HOST.fullmatch(text.lower()) is not None


def _matches(url: HttpUrl, entry: str) -> bool:
    name, port = _split_entry(entry)
    if port not in (None, str(url.port)):
        return False
    host = url.host.rstrip(".")
    return name in ("*", host) or (name.startswith("*.") and host.endswith(name[1:])) or _is_same_address(name, host)


@lru_cache(maxsize=256)
def _split_entry(entry: str) -> tuple[str, str | None]:
    found = _ALLOWED_HOST.fullmatch(entry.lower())
    if found is None:
        return "", None
    return found["host"].strip("[]").rstrip("."), found["port"]


def _is_same_address(name: str, host: str) -> bool:
    try:
        return ip_address(name) == ip_address(host)
    except ValueError:
        return False
