"""The http node: sends a request and returns the response."""

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
from graphmill.nodes.http.request import (
    METHODS,
    READ_METHODS,
    HttpUrl,
    OutgoingRequest,
    basic_header,
    bearer_header,
    build_headers,
    build_url,
    encode_body,
    encode_form,
    encode_query,
    header_problem,
    is_valid_entry,
    parse_url,
)
from graphmill.nodes.http.response import ResponseRules, fetch

_MAX_BYTES = 32 * 1024 * 1024


class BasicAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A user name and password."""

    user: str
    password: str


class HttpAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Credentials: one of the two."""

    bearer: Annotated[str | None, Meta(description="A token.")] = None
    basic: Annotated[BasicAuth | None, Meta(description="A user name and a password.")] = None


class HttpParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The request, and how its response is read."""

    url: Annotated[
        str,
        Meta(
            description="The URL. In the path or query, a template's value is percent-encoded data: it cannot end its "
            "part. A template at the beginning is a URL or its first part; `params` adds to the query."
        ),
    ]
    method: Annotated[str | None, Meta(description="Default: `POST` with a `body` or a `form`, otherwise `GET`.")] = (
        None
    )
    headers: Annotated[dict[str, Any], Meta(description="Name → value; null leaves one out.")] = {}
    params: Annotated[
        dict[str, Any],
        Meta(description="Query parameters: name → value. A list gives one pair for each entry, null none."),
    ] = {}
    body: Annotated[
        Any, Meta(description="The body: text is sent as it is, any other value as JSON, null is no body.")
    ] = None
    form: Annotated[dict[str, Any] | None, Meta(description="The fields of a form, instead of a `body`.")] = None
    auth: Annotated[
        HttpAuth | None,
        Meta(description="`{bearer: …}` or `{basic: {user: …, password: …}}`, usually with `{env: NAME}`."),
    ] = None
    timeout: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Seconds for the whole attempt, up to the last byte of the body."),
    ] = None
    allow_hosts: Annotated[
        list[str],
        Meta(
            description="Hosts that a template or a redirect may lead to although they are not public: `name`, "
            "`*.name`, `name:port`, an address, or `*` for all."
        ),
    ] = []
    ok_codes: Annotated[
        list[Annotated[int, Meta(ge=300, le=599)]],
        Meta(
            description="Statuses besides 200 to 299 that are not failures, such as 404 for what may not exist; "
            "`status_code` says which one it was."
        ),
    ] = []
    max_bytes: Annotated[int, Meta(ge=1, description="The largest body to accept, decompressed.")] = _MAX_BYTES


class Http(NodeType[HttpParams]):
    """Sends one request per attempt."""

    name = "http"
    summary = "Sends an HTTP request; a status other than 2xx is a failure, and decides whether it is retried."
    Params = HttpParams
    outputs: ClassVar[Mapping[str, str]] = {
        "response": "the body: data for JSON, text for a text type, otherwise base64; null if there is none",
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
        """Check what is known before the run: method, URL, headers, and params that exclude each other."""
        del site
        _check_url(params["url"])
        _check_method(params.get("method"))
        if params.get("body") is not None and params.get("form") is not None:
            raise ParamError("body and form exclude each other; leave one out", at=("form",))
        _check_auth(params.get("auth"), params.get("headers"))
        _check_headers(params.get("headers"))
        for number, entry in enumerate(params.get("allow_hosts") or ()):
            if not is_valid_entry(entry):
                raise ParamError(
                    f"allow_hosts: {entry!r:.80} is not a host; write name, *.name, name:port, or *",
                    at=("allow_hosts", number),
                )
        if not math.isfinite(params.get("timeout") or 0.0):
            raise ParamError("timeout must be a number of seconds; leave it out for no limit", at=("timeout",))

    def effect_of(self, params: Mapping[str, Any]) -> Effect:
        """Only methods that read may be sent twice; a method that is not known yet may be any."""
        method = _choose_method(params.get("method"), params.get("body"), params.get("form"))
        if method in READ_METHODS:
            return "repeatable"
        return "unsafe"

    def timeout_s(self, params: Mapping[str, Any]) -> float | None:
        """Return the limit of an attempt."""
        timeout = params.get("timeout")
        return None if timeout is None else float(timeout)

    async def run(self, params: HttpParams, context: Context) -> Mapping[str, Any]:
        """Send the request; return what came back."""
        built = build_url(pieces_of(params.url))
        request = _build_request(params, context, built.url.with_query(encode_query(params.params)))
        rules = ResponseRules(allow_hosts=params.allow_hosts, max_bytes=params.max_bytes, ok_codes=params.ok_codes)
        response, content = await fetch(request, context, rules, is_host_written=built.is_host_written)
        return {
            "response": content.value,
            "status_code": response.status,
            "headers": response.headers,
            "response_is_binary": content.is_binary,
        }


def _build_request(params: HttpParams, context: Context, url: HttpUrl) -> OutgoingRequest:
    method = _choose_method(params.method, params.body, params.form)
    if method not in METHODS:
        raise Permanent(f"method must be one of {', '.join(METHODS)}, got {method!r:.40}")
    headers, body, kind = build_headers(params.headers), None, ""
    if params.form is not None:
        body, kind = encode_form(params.form), "application/x-www-form-urlencoded"
    elif params.body is not None:
        body, kind = encode_body(params.body)
    if kind:
        headers.setdefault("content-type", kind)
    if params.auth is not None:
        headers["authorization"] = _build_authorization(params.auth)
    if method not in READ_METHODS and context.idempotency_key:
        headers.setdefault("idempotency-key", context.idempotency_key)
    return OutgoingRequest(method=method, url=url, headers=headers, body=body)


def _build_authorization(auth: HttpAuth) -> str:
    if auth.basic is not None:
        return basic_header(auth.basic.user, auth.basic.password)
    if auth.bearer is None:
        raise Permanent("auth must have bearer or basic")
    return bearer_header(auth.bearer)


def _choose_method(method: Any, body: Any, form: Any) -> str:
    """Return the method in capitals."""
    if method is not None:
        return str(method).upper()
    if body is None and form is None:
        return "GET"
    return "POST"


def _check_method(method: Any) -> None:
    if isinstance(method, str) and not is_open(method) and method.upper() not in METHODS:
        near = suggestion(method.upper(), METHODS)
        raise ParamError(f"method must be one of {', '.join(METHODS)}, got {method!r:.40}{near}", at=("method",))


def _check_url(url: Any) -> None:
    """Check a URL up to its first template, if that is enough to know the host."""
    if not isinstance(url, str):
        return
    known = url.partition("${")[0]
    is_beginning = is_open(url) and known.count("/") <= 2
    if is_beginning and any(scheme.startswith(known[: len(scheme)].lower()) for scheme in ("http://", "https://")):
        return
    try:
        parse_url(known)
    except Permanent as error:
        raise ParamError(f"url: {error}", at=("url",)) from error


def _check_auth(auth: Any, headers: Any) -> None:
    if not isinstance(auth, Mapping) or "env" in auth:
        return
    if len([each for each in auth.values() if each is not None]) != 1:
        raise ParamError("auth must have either bearer or basic", at=("auth",))
    if isinstance(headers, Mapping) and "authorization" in map(str.lower, headers):
        raise ParamError("auth and the header authorization exclude each other; leave one out", at=("auth",))


def _check_headers(headers: Any) -> None:
    if not isinstance(headers, Mapping) or "env" in headers:
        return
    for name, value in headers.items():
        is_known = isinstance(value, str) and not is_open(value)
        if problem := header_problem(name, value if is_known else ""):
            raise ParamError(f"headers: {problem}", at=("headers", name))
