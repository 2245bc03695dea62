"""Errors of the messages API: what their types mean."""

from __future__ import annotations

import re

from graphmill.core.errors import AttemptError, Permanent, Throttled, Transient, Unavailable
from graphmill.providers.verdict import Said

STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_BY_TYPE: dict[str, type[AttemptError]] = {
    "authentication_error": Unavailable,
    "billing_error": Unavailable,
    "permission_error": Unavailable,
    "not_found_error": Unavailable,
    "request_too_large": Permanent,
    "rate_limit_error": Throttled,
    "api_error": Transient,
    "timeout_error": Transient,
    "overloaded_error": Throttled,
}
_NO_CREDIT = re.compile(r"credit balance is too low|spend limit|usage limits?\b|billing", re.IGNORECASE)


def kind_of(status: int, said: Said) -> type[AttemptError] | None:
    """Give the kind of an error; money that has run out is told as a bad request, or as a limit."""
    if said.code == "enforced_spend_limit_reached":
        return Unavailable
    if status == 400 and _NO_CREDIT.search(said.message):
        return Unavailable
    return _BY_TYPE.get(said.type)
