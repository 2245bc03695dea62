"""Params that nodes of the older JSON form have, by the names and with the meanings that they have here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphmill.graph.kinds import shown

_TWICE = "{} is there already; leave one of them out"
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
        reading.notes["ignore_errors"] = (
            "every exit code passes, as there; a command that a signal has killed is a failure here"
        )
    elif ignores not in (None, False):
        reading.problems["ignore_errors"] = (
            f"true or false is wanted, not {shown(ignores)}; ok_codes lists exit codes that pass"
        )
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
    header = params.pop("api_key_header", None) or "X-API-Key"
    if token and key:
        reading.problems["api_key"] = _TWICE.format("auth_token")
    elif token:
        _send_token(reading, token)
    elif key:
        _send_key(reading, key, header)


def _send_token(reading: Reading, token: Any) -> None:
    if reading.params.get("auth") is not None:
        reading.problems["auth_token"] = _TWICE.format("auth")
    elif _has_headers(reading, "auth_token"):
        reading.params["auth"] = {"bearer": token}
        reading.params["headers"] = _headers_but(reading, "authorization")


def _send_key(reading: Reading, key: Any, header: Any) -> None:
    if not isinstance(header, str) or "${" in header:
        reading.problems["api_key_header"] = f"the name of a header is wanted, not {shown(header)}"
    elif _has_headers(reading, "api_key"):
        reading.params["headers"] = {**_headers_but(reading, header), header: key}


def _has_headers(reading: Reading, key: str) -> bool:
    """Tell whether the headers are known, to which a credential belongs; a problem if not."""
    is_known = isinstance(reading.params.get("headers") or {}, Mapping)
    if not is_known:
        reading.problems[key] = "it is sent as a header, and headers is no mapping; write the headers one by one"
    return is_known


def _headers_but(reading: Reading, name: str) -> dict[str, Any]:
    """Give the headers without the one whose place a credential takes."""
    return {
        each: value
        for each, value in (reading.params.get("headers") or {}).items()
        if str(each).lower() != name.lower()
    }


_READERS: Mapping[str, Callable[[Reading], None]] = {"http": _http, "shell": _shell}
