"""Errors of generateContent: what their status and details mean."""

from __future__ import annotations

from typing import Any

from graphmill.core.errors import AttemptError, Throttled, Unavailable
from graphmill.providers.answer import list_at, text_at
from graphmill.providers.limit_headers import duration_s
from graphmill.providers.verdict import Said

_BY_STATUS: dict[str, type[AttemptError]] = {
    "FAILED_PRECONDITION": Unavailable,
    "NOT_FOUND": Unavailable,
    "PERMISSION_DENIED": Unavailable,
    "UNAUTHENTICATED": Unavailable,
    "UNAVAILABLE": Throttled,
}
_OF_THE_KEY = frozenset(
    {"API_KEY_INVALID", "API_KEY_EXPIRED", "API_KEY_SERVICE_BLOCKED", "BILLING_DISABLED", "SERVICE_DISABLED"}
)


def kind_of(status: int, said: Said, data: dict[str, Any]) -> type[AttemptError] | None:
    """Give the kind of an error; a refused key is told as a bad request, and a day's quota as a throttle."""
    details = list_at(data, "error", "details")
    if any(text_at(detail, "reason") in _OF_THE_KEY for detail in details) or "API key not valid" in said.message:
        return Unavailable
    if status == 429 and any(
        "PerDay" in text_at(each, "quotaId") for detail in details for each in list_at(detail, "violations")
    ):
        return Unavailable
    return _BY_STATUS.get(said.type)


def retry_delay_s(data: dict[str, Any]) -> float | None:
    """Read the wait that the details of an error ask for."""
    for detail in list_at(data, "error", "details"):
        if (delay := text_at(detail, "retryDelay")) and (seconds := duration_s(delay)) is not None:
            return seconds
    return None
