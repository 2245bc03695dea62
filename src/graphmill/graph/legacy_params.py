"""Params that nodes of the older JSON form have, by the names and with the meanings that they have here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphmill.graph.kinds import shown

_ALL_CODES = tuple(range(256))
_LENIENT = re.compile(r"(?:^|[\s|])(grep|rg) |^\s*(which|type) |(command -v) |^\s*(ls) .*[*?\[\]]", re.DOTALL)
_NOTHING_FOUND = {"grep": 1, "rg": 1, "which": 1, "type": 127, "command -v": 127, "ls": 2}


@dataclass(slots=True)
class Reading:
    """A node's params by today's names; ``notes`` and ``problems`` say, by the key as written, what differs and what can not be."""

    params: dict[str, Any]
    notes: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def read_params(node_type: str, written: Mapping[str, Any]) -> Reading:
    """Read the params of a node of the older form; those of most types are the same."""
    reading = Reading(dict(written))
    if node_type in _READERS:
        _READERS[node_type](reading)
    return reading


def _shell(reading: Reading) -> None:
    params = reading.params
    ignores = params.pop("ignore_errors", None)
    params.setdefault("strip_newline", True)
    if ignores is True:
        params["ok_codes"] = list(_ALL_CODES)
        reading.notes["ignore_errors"] = "every exit code passes, as there; a command that a signal has killed is a failure here"
    elif ignores not in (None, False):
        reading.problems["ignore_errors"] = f"true or false is wanted, not {shown(ignores)}; ok_codes lists exit codes that pass"
    elif "ok_codes" not in params and (name := _lenient(params.get("command"))):
        remedy = f"ok_codes: [0, {_NOTHING_FOUND[name]}] lets it pass"
        reading.notes["command"] = f"that {name!r} finds nothing passed there, and fails here; {remedy}"


def _lenient(command: Any) -> str | None:
    """Name the command in this one whose failure was taken for an empty result there."""
    found = _LENIENT.search(command) if isinstance(command, str) else None
    return next(filter(None, found.groups())) if found else None


def _http(reading: Reading) -> None:
    params = reading.params
    token, key = params.pop("auth_token", None), params.pop("api_key", None)
    name = params.pop("api_key_header", None) or "X-API-Key"
    headers = params.get("headers") or {}
    reading.problems.update(_credential_problems(token, key, name, params))
    if reading.problems:
        return
    if token:
        params["auth"] = {"bearer": token}
        params["headers"] = _without(headers, "authorization")
    elif key:
        params["headers"] = {**_without(headers, name), name: key}


def _credential_problems(token: Any, key: Any, name: Any, params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    given = "auth_token" if token else "api_key"
    if token and key:
        yield "api_key", "auth_token is there already; leave one of them out"
    if token and params.get("auth") is not None:
        yield "auth_token", "auth is there already; leave one of them out"
    if key and (not isinstance(name, str) or "${" in name):
        yield "api_key_header", f"the name of a header is wanted, not {shown(name)}"
    if (token or key) and not isinstance(params.get("headers") or {}, Mapping):
        yield given, "it is sent as a header, and headers is no mapping; write the headers one by one"


def _without(headers: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Leave out the header that a credential takes the place of."""
    return {each: value for each, value in headers.items() if str(each).lower() != name.lower()}


_READERS: Mapping[str, Callable[[Reading], None]] = {"http": _http, "shell": _shell}
