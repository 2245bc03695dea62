"""The http node: asks a server and gives its answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from graphmill.core.errors import Permanent
from graphmill.core.job import Effect
from graphmill.core.suggest import suggestion
from graphmill.graph.node_params import is_open, pieces_of
from graphmill.graph.node_type import Context, NodeType, ParamError, Site
from graphmill.nodes.http.hosts import is_entry
from graphmill.nodes.http.redirects import Bounds, follow
from graphmill.nodes.http.request import (
    METHODS,
    READING,
    Request,
    basic,
    bearer,
    body_of,
    form_of,
    header_lines,
    header_problem,
    query_of,
)
from graphmill.nodes.http.url import target_of, whole_url

_MOST_BYTES = 32 * 1024 * 1024


class BasicAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A user's name and password."""

    user: str
    password: str


class Auth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who asks; one of the two."""

    bearer: Annotated[str | None, Meta(description="A token.")] = None
    basic: Annotated[BasicAuth | None, Meta(description="A user and a password.")] = None


class HttpParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is asked of whom."""

    url: Annotated[
        str,
        Meta(
            description="Where to ask. A template's value in the path or the query is data, percent-encoded: it can not end the part "
            "that it stands in. A template at the beginning is a URL or the first part of one; `params` adds to the query."
        ),
    ]
    method: Annotated[str | None, Meta(description="`GET` where left out, `POST` with a `body` or a `form`.")] = None
    headers: Annotated[dict[str, Any], Meta(description="Name → value; null leaves one out.")] = {}
    params: Annotated[
        dict[str, Any], Meta(description="The query: name → value. A list is a pair for each entry, null none.")
    ] = {}
    body: Annotated[Any, Meta(description="What is sent: text as it is, any other value as JSON, null nothing.")] = None
    form: Annotated[
        dict[str, Any] | None, Meta(description="What is sent as the fields of a form, instead of a `body`.")
    ] = None
    auth: Annotated[
        Auth | None, Meta(description="`{bearer: …}` or `{basic: {user: …, password: …}}`, usually with `{env: NAME}`.")
    ] = None
    timeout: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Seconds for the whole attempt, the last byte of the body included."),
    ] = None
    allow_hosts: Annotated[
        list[str],
        Meta(
            description="Hosts that a template or a redirect may lead to although they are not public: `name`, `*.name`, `name:port`, an "
            "address, or `*` for all."
        ),
    ] = []
    ok_codes: Annotated[
        list[Annotated[int, Meta(ge=300, le=599)]],
        Meta(
            description="Statuses beside 200 to 299 that are no failure, such as 404 where nothing was found; `status_code` "
            "tells which it was."
        ),
    ] = []
    max_bytes: Annotated[int, Meta(ge=1, description="The most bytes of a body, decompressed.")] = _MOST_BYTES


class Http(NodeType[HttpParams]):
    """Sends one request for each attempt, and no more."""

    name = "http"
    summary = (
        "Asks a server over HTTP; an answer other than 2xx is a failure, by whose status it is tried again or not."
    )
    Params = HttpParams
    outputs: ClassVar[Mapping[str, str]] = {
        "response": "the body: data if its content type is JSON, text if that is text, else base64; null if there is none",
        "status_code": "the status: 200 to 299, or one of `ok_codes`",
        "headers": "name in lower case → value",
        "response_is_binary": "whether the body is given as base64",
    }
    untemplated = frozenset({"timeout", "allow_hosts", "ok_codes", "max_bytes"})
    in_pieces = frozenset({"url"})
    example = """\
- id: fetch
  type: http
  params:
    url: "https://api.example.org/users/${user.id}"
    params: {fields: [name, city]}
    auth: {bearer: {env: EXAMPLE_TOKEN}}
"""

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Find what is wrong with what is known already: method, address, headers, and what excludes each other."""
        del site
        _require_url(params["url"])
        _require_method(params.get("method"))
        if params.get("body") is not None and params.get("form") is not None:
            raise ParamError("a request has a body or a form, not both", at=("form",))
        _require_auth(params.get("auth"), params.get("headers"))
        _require_headers(params.get("headers"))
        for number, entry in enumerate(params.get("allow_hosts") or ()):
            if not is_entry(entry):
                raise ParamError(
                    f"allow_hosts: {entry!r:.80} is no host; write name, *.name, name:port, or *",
                    at=("allow_hosts", number),
                )
        if not math.isfinite(params.get("timeout") or 0.0):
            raise ParamError("timeout: a number of seconds is wanted; leave it out for none", at=("timeout",))

    def effect_of(self, params: Mapping[str, Any]) -> Effect:
        """Say that only what asks and changes nothing may be sent twice; a method that is not known yet may be any."""
        return (
            "repeatable"
            if _method(params.get("method"), params.get("body"), params.get("form")) in READING
            else "unsafe"
        )

    def timeout_s(self, params: Mapping[str, Any]) -> float | None:
        """Give the limit of an attempt."""
        timeout = params.get("timeout")
        return None if timeout is None else float(timeout)

    async def run(self, params: HttpParams, context: Context) -> Mapping[str, Any]:
        """Send the request; give what came back."""
        target = target_of(pieces_of(params.url))
        url = target.url.with_query(query_of(params.params)) if params.params else target.url
        request = _request(params, context, method=_known_method(params), url=url)
        bounds = Bounds(allow_hosts=params.allow_hosts, max_bytes=params.max_bytes, ok_codes=params.ok_codes)
        answer, content = await follow(request, context, bounds, is_host_written=target.is_host_written)
        return {
            "response": content.value,
            "status_code": answer.status,
            "headers": answer.headers,
            "response_is_binary": content.is_binary,
        }


def _request(params: HttpParams, context: Context, *, method: str, url: Any) -> Request:
    headers, body, kind = header_lines(params.headers), None, ""
    if params.form is not None:
        body, kind = form_of(params.form), "application/x-www-form-urlencoded"
    elif params.body is not None:
        body, kind = body_of(params.body)
    if kind:
        headers.setdefault("content-type", kind)
    if params.auth is not None:
        headers["authorization"] = _credentials(params.auth)
    if method not in READING and context.idempotency_key:
        headers.setdefault("idempotency-key", context.idempotency_key)
    return Request(method=method, url=url, headers=headers, body=body)


def _credentials(auth: Auth) -> str:
    if auth.basic is not None:
        return basic(auth.basic.user, auth.basic.password)
    if auth.bearer is None:
        raise Permanent("auth: bearer or basic is wanted")
    return bearer(auth.bearer)


def _method(method: Any, body: Any, form: Any) -> str:
    """Give the method that is meant, in capitals."""
    if method is None:
        return "GET" if body is None and form is None else "POST"
    return str(method).upper()


def _known_method(params: HttpParams) -> str:
    method = _method(params.method, params.body, params.form)
    if method not in METHODS:
        raise Permanent(f"method: {method!r:.40} is not one of {', '.join(METHODS)}")
    return method


def _require_method(method: Any) -> None:
    if isinstance(method, str) and not is_open(method) and method.upper() not in METHODS:
        raise ParamError(
            f"method: {method!r:.40} is not one of {', '.join(METHODS)}{suggestion(method.upper(), METHODS)}",
            at=("method",),
        )


def _require_url(url: Any) -> None:
    """Look at a URL up to its first template, as far as that is enough to know the host."""
    if not isinstance(url, str):
        return
    known = url.partition("${")[0]
    is_beginning = is_open(url) and known.count("/") <= 2
    if is_beginning and any(scheme.startswith(known[: len(scheme)].lower()) for scheme in ("http://", "https://")):
        return
    try:
        whole_url(known)
    except Permanent as error:
        raise ParamError(f"url: {error}", at=("url",)) from error


def _require_auth(auth: Any, headers: Any) -> None:
    if not isinstance(auth, Mapping) or "env" in auth:
        return
    if len([each for each in auth.values() if each is not None]) != 1:
        raise ParamError("auth: one of bearer and basic is wanted", at=("auth",))
    if isinstance(headers, Mapping) and "authorization" in map(str.lower, headers):
        raise ParamError("auth: the headers name authorization already; leave one of them out", at=("auth",))


def _require_headers(headers: Any) -> None:
    if not isinstance(headers, Mapping) or "env" in headers:
        return
    for name, value in headers.items():
        problem = header_problem(name, value if isinstance(value, str) and not is_open(value) else "")
        if problem:
            raise ParamError(f"headers: {problem}", at=("headers", name))
