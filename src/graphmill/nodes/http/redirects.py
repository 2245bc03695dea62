"""Redirects: a request, and where its answers lead, until one of them is the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from graphmill.core.errors import AttemptError, Permanent, Transient
from graphmill.graph.node_type import Context
from graphmill.nodes.http.answer import Answer, Content, content_of, error_of
from graphmill.nodes.http.hosts import is_allowed
from graphmill.nodes.http.request import Request
from graphmill.nodes.http.url import Url
from graphmill.nodes.http.wire import Wire

_MOST_HOPS = 10
_LEADING = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a node's author has set: hosts that are allowed beyond the rules, the most bytes of a body, statuses that are no failure."""

    allow_hosts: Sequence[str]
    max_bytes: int
    ok_codes: Sequence[int]


async def follow(
    request: Request, context: Context, bounds: Bounds, *, is_host_written: bool
) -> tuple[Answer, Content]:
    """Send a request and follow where it leads; give the last answer, or raise what it means."""
    has_happened = False
    try:
        for _ in range(_MOST_HOPS + 1):
            wire = _wire(context, is_guarded=not is_host_written and not is_allowed(request.url, bounds.allow_hosts))
            answer = await wire.send(
                request, most=bounds.max_bytes, within_s=context.timeout_s, ok_codes=bounds.ok_codes
            )
            location = answer.headers.get("location")
            if answer.status not in _LEADING or location is None:
                return answer, _content(request, answer)
            has_happened = has_happened or (not request.is_reading and request.turns_to_get(answer.status))
            following = request.redirected(answer.status, _next_url(request, location))
            is_host_written = is_host_written and _is_same_host(request.url, following.url)
            request = following
        raise Permanent(f"{request.shown}: more than {_MOST_HOPS} redirects")
    except AttemptError as error:
        if has_happened:  # whatever became of what it led to: it is not to be sent again as if it were unsent
            raise Transient(f"the first request was answered, and led on: {error}") from None
        raise


def _wire(context: Context, *, is_guarded: bool) -> Wire:
    return context.shared(("http", is_guarded), partial(Wire, is_guarded=is_guarded))


def _next_url(request: Request, location: str) -> Url:
    try:
        url = request.url.joined(location)
    except (Permanent, ValueError) as error:
        raise Permanent(f"{request.shown}: redirected to what is no URL: {error}") from None
    if request.url.scheme == "https" and url.scheme == "http":
        raise Permanent(
            f"{request.shown}: redirected from https to {url.shown}, where everybody can read it; ask for that url itself"
        )
    return url


def _is_same_host(before: Url, after: Url) -> bool:
    """Tell whether a redirect stays where the author sent the request, be it by the safer scheme."""
    is_upgrade = (before.scheme, before.port, after.scheme, after.port) == ("http", 80, "https", 443)
    return before.host == after.host and (before.port == after.port or is_upgrade)


def _content(request: Request, answer: Answer) -> Content:
    if not answer.is_good:
        raise error_of(answer, request.shown, _hidden(request))
    try:
        return content_of(answer)
    except Transient as wrong:
        raise Transient(f"{request.shown}: {wrong}") from None


def _hidden(request: Request) -> set[str]:
    """Give what was sent that an answer may repeat and a message must not: credentials, and the values of the query."""
    values = {pair.partition("=")[2] for pair in request.url.query.split("&")}
    return values | {part for name in ("authorization", "cookie") for part in request.headers.get(name, "").split(" ")}
