"""A URL out of its pieces: what an author wrote is its structure, what a template came to is data in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import IPv6Address
from typing import NamedTuple
from urllib.parse import quote, unquote, urljoin

from graphmill.core.errors import Permanent
from graphmill.graph.node_params import Filled
from graphmill.nodes.text import param_bytes

_PORTS = {"http": 80, "https": 443}
_AS_WRITTEN = "/:?#[]@!$&'()*+,;=%~"
_HEAD = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#\\]*)(?=[/?#\\])")
_IN_HOST = re.compile(r"[\w.:\[\]-]*")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]*)(?::([0-9]{0,5}))?")
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_.])?")


@dataclass(frozen=True, slots=True)
class Url:
    """A URL as it goes over the wire; ``host`` is in lower case, a number of IPv6 without its brackets."""

    scheme: str
    host: str
    port: int
    path: str
    query: str = ""

    @property
    def origin(self) -> tuple[str, str, int]:
        """Whom it speaks to, and how."""
        return self.scheme, self.host, self.port

    @property
    def place(self) -> str:
        """Scheme, host and, where it is not the usual one, port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" if self.port == _PORTS[self.scheme] else f"{self.scheme}://{host}:{self.port}"

    @property
    def target(self) -> str:
        """What stands behind the host."""
        return f"{self.path}?{self.query}" if self.query else self.path

    def __str__(self) -> str:
        return f"{self.place}{self.target}"

    @property
    def shown(self) -> str:
        """As a message may repeat it: the values of its query are often keys."""
        names = [
            f"{name}=…" if is_set else "…"
            for name, is_set, _ in (pair.partition("=") for pair in self.query.split("&"))
        ]
        return f"{self.place}{self.path}?{'&'.join(names)}" if self.query else f"{self.place}{self.path}"

    def with_query(self, more: str) -> Url:
        """Add pairs to the query."""
        return replace(self, query=f"{self.query}&{more}" if self.query else more) if more else self

    def joined(self, location: str) -> Url:
        """Give where a redirect from here leads."""
        return whole_url(urljoin(str(self), location))


class Target(NamedTuple):
    """Where a request goes, and whether the author wrote the host, or a template did."""

    url: Url
    is_host_written: bool


def target_of(pieces: Iterable[str | Filled]) -> Target:
    """Put a URL together; Permanent says what is wrong with it.

    A template at its very beginning is a URL, or the beginning of one; in the host part a value is a part of a name; behind that it
    is percent-encoded, and so can not end the part that it stands in.
    """
    head, is_written = "", True
    waiting = list(pieces)
    while waiting and not _HEAD.match(head):
        piece = waiting.pop(0)
        if not isinstance(piece, str):
            is_written = False
            piece = _in_host(piece.text) if head else piece.text.strip()
        head += piece
    scheme, host, port, rest = _split_head(head)
    path, query = _path_and_query([rest, *waiting])
    return Target(Url(scheme, host, port, path, query), is_written)


def whole_url(text: str) -> Url:
    """Read a URL that is a whole."""
    return target_of([text]).url


def encoded(text: str, at: str = "url") -> str:
    """Write a value so that it can only be one."""
    return quote(param_bytes(text, at), safe="")


def _in_host(text: str) -> str:
    if not _IN_HOST.fullmatch(text):
        remedy = "write the / behind the host, or give the whole URL as one template"
        raise Permanent(
            f"a value in the host part of the url is a part of a name, or a port, not {text!r:.60}; {remedy}"
        )
    return text


@lru_cache(maxsize=256)
def _split_head(text: str) -> tuple[str, str, int, str]:
    """Give scheme, host and port, and what is behind them."""
    found = _HEAD.match(text) or _HEAD.match(f"{text}/")
    if found is None:
        raise Permanent(f"a url begins with http:// or https:// and a host, not {_cut(text)!r}")
    scheme, authority = found["scheme"].lower(), found["authority"]
    if scheme not in _PORTS:
        raise Permanent(f"a url begins with http:// or https://, not {scheme}://")
    if "@" in authority:
        raise Permanent("a url names no user; use auth: {basic: {user: …, password: {env: NAME}}}")
    split = _AUTHORITY.fullmatch(authority)
    port = int(split[2] or _PORTS[scheme]) if split else -1
    if split is None or not 0 < port < 65536:
        raise Permanent(f"{authority!r:.80} is no host, nor one with a port")
    return scheme, _host(split[1]), port, text[found.end() :]


def _cut(text: str) -> str:
    """Give the beginning of a text that is no URL, without anything in it that could be a secret."""
    return re.split(r"[?#]", text.rpartition("@")[2], maxsplit=1)[0][:60]


def _host(text: str) -> str:
    try:
        if text.startswith("["):
            return str(IPv6Address(text[1:-1]))
        name = text.lower() if text.isascii() else _ascii(text)
    except ValueError as error:
        raise Permanent(f"{text!r:.80} is no host") from error
    if not _NAME.fullmatch(name):
        raise Permanent(f"{text!r:.80} is no host")
    return name


def _ascii(name: str) -> str:
    import idna  # noqa: PLC0415  only names beyond ASCII need it

    return idna.encode(name, uts46=True).decode()


class _Text(NamedTuple):
    """A written part of a URL behind its host: pieces of a path, then, if it holds a ``?``, of a query; ``is_last`` if a ``#`` follows."""

    segments: tuple[str, ...]
    query: str | None
    is_last: bool


@lru_cache(maxsize=256)
def _split(text: str, *, is_path: bool) -> _Text:
    written, fragment, _ = quote(text, safe=_AS_WRITTEN, errors="surrogateescape").partition("#")
    if not is_path:
        return _Text((), written, bool(fragment))
    path, mark, query = written.partition("?")
    return _Text(tuple(path.split("/")), query if mark else None, bool(fragment))


def _path_and_query(pieces: list[str | Filled]) -> tuple[str, str]:
    segments: list[tuple[str, bool]] = [("", False)]
    query: str | None = None
    for piece in pieces:
        if not isinstance(piece, str):
            value = encoded(piece.text)
            if query is None:
                segments[-1] = segments[-1][0] + value, True
            else:
                query += value
            continue
        text = _split(piece, is_path=query is None)
        if query is None:
            first, *more = text.segments
            segments[-1] = segments[-1][0] + first, segments[-1][1]
            segments += [(segment, False) for segment in more]
        if text.query is not None:
            query = f"{query or ''}{text.query}"
        if text.is_last:
            break
    return _path(segments), query or ""


def _path(segments: list[tuple[str, bool]]) -> str:
    for segment, has_value in segments:
        if has_value and unquote(segment) in ("", ".", ".."):
            said = repr(unquote(segment)) if segment else "nothing"
            raise Permanent(
                f"a value makes a whole part of the url's path {said}, which names another path than is written"
            )
    path = "/".join(segment for segment, _ in segments)
    return path if path.startswith("/") else f"/{path}"
