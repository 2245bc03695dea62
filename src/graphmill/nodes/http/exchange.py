"""An exchange: a request, and where its answers lead, until one of them is the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from graphmill.core.errors import Ambiguous, AttemptError, Permanent, Throttled, Transient
from graphmill.graph.node_type import Context
from graphmill.nodes.http.answer import Answer, Content, content_of, error_of
from graphmill.nodes.http.hosts import is_allowed
from graphmill.nodes.http.request import Request
from graphmill.nodes.http.url import Url
from graphmill.nodes.http.wire import Wire

_MOST_HOPS = 10
_LEADING = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a node's author has set: the hosts that are allowed beyond the rules, and the most bytes of a body."""

    allow_hosts: Sequence[str]
    max_bytes: int


async def exchange(request: Request, context: Context, limits: Limits, *, is_host_written: bool) -> tuple[Answer, Content]:
    """Send a request and follow where it leads; give the last answer, or raise what it means."""
    has_happened = False
    try:
        for _ in range(_MOST_HOPS + 1):
            wire = _wire(context, is_guarded=not is_host_written and not is_allowed(request.url, limits.allow_hosts))
            answer = await wire.send(request, most=limits.max_bytes, within_s=context.timeout_s)
            following = _following(request, answer)
            if following is None:
                return answer, _content(request, answer)
            is_host_written = is_host_written and _is_same_host(request.url, following.url)
            has_happened = has_happened or (not request.is_reading and following.is_reading)
            request = following
    except AttemptError as error:
        if has_happened:
            raise _after_it_happened(error) from None
        raise
    raise Permanent(f"{request.shown}: more than {_MOST_HOPS} redirects")


def _wire(context: Context, *, is_guarded: bool) -> Wire:
    return context.shared(("http", is_guarded), partial(Wire, is_guarded=is_guarded))


def _following(request: Request, answer: Answer) -> Request | None:
    """Give the request that an answer asks for instead, None if it is the last."""
    location = answer.headers.get("location")
    if answer.status not in _LEADING or location is None:
        return None
    try:
        url = request.url.joined(location)
    except (Permanent, ValueError) as error:
        raise Permanent(f"{request.shown}: redirected to what is no URL: {error}") from None
    if request.url.scheme == "https" and url.scheme == "http":
        raise Permanent(f"{request.shown}: redirected from https to {url.shown}, where everybody can read it; ask for that url itself")
    return request.redirected(answer.status, url)


def _is_same_host(before: Url, after: Url) -> bool:
    """Tell whether a redirect stays where the author sent the request, be it by the safer scheme."""
    is_upgrade = (before.scheme, before.port, after.scheme, after.port) == ("http", 80, "https", 443)
    return before.host == after.host and (before.port == after.port or is_upgrade)


def _content(request: Request, answer: Answer) -> Content:
    error = error_of(answer, request.shown, _hidden(request))
    if error is not None:
        raise error
    try:
        return content_of(answer)
    except Transient as wrong:
        raise Transient(f"{request.shown}: {wrong}") from None


def _hidden(request: Request) -> set[str]:
    """Give what was sent that an answer may repeat and a message must not: credentials, and the values of the query."""
    values = {pair.partition("=")[2] for pair in request.url.query.split("&")}
    return values | {part for name in ("authorization", "cookie") for part in request.headers.get(name, "").split(" ")}


def _after_it_happened(error: AttemptError) -> AttemptError:
    """Give what an error means behind an answer to a request that has changed something: it is not to be sent again by itself."""
    if isinstance(error, Throttled | Transient):
        return Transient(f"the first request was answered, and led on: {error}")
    return error if isinstance(error, Permanent | Ambiguous) else Transient(str(error))
