"""Errors of servers that speak chat completions: what they say, and what that means."""

from __future__ import annotations

import re
from typing import Any

from graphmill.core.errors import AttemptError, Permanent, Throttled, Unavailable
from graphmill.providers.answer import entry, text_at
from graphmill.providers.verdict import Said

_BY_CODE: dict[str, type[AttemptError]] = {
    "access_terminated": Unavailable,
    "account_deactivated": Unavailable,
    "billing_hard_limit_reached": Unavailable,
    "billing_not_active": Unavailable,
    "credit_balance_exhausted": Unavailable,
    "deploymentnotfound": Unavailable,
    "insufficient_quota": Unavailable,
    "invalid_api_key": Unavailable,
    "model_not_found": Unavailable,
    "unsupported_country_region_territory": Unavailable,
    "content_filter": Permanent,
    "content_policy_violation": Permanent,
    "context_length_exceeded": Permanent,
    "invalid_prompt": Permanent,
    "string_above_max_length": Permanent,
    "engine_overloaded": Throttled,
    "overloaded": Throttled,
    "rate_limit_exceeded": Throttled,
    "server_overloaded": Throttled,
    "slow_down": Throttled,
}
_TOO_LARGE = re.compile(r"request too large|must be reduced|maximum context length|context window", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"is not a valid model id|the model `?[^`]*`? does not exist|no endpoints found for", re.IGNORECASE
)


def said_in(data: dict[str, Any]) -> Said:
    """Read an error object in any of the forms that servers give it."""
    found = data.get("error") or entry(data, "choices", 0, "error") or data
    error = found if isinstance(found, dict) else {"message": found}
    message = text_at(error, "message") or text_at(error, "detail") or text_at(error, "detail", 0, "msg")
    code = error.get("code")
    return Said(message, text_at(error, "type"), str(code) if isinstance(code, str | int) else "")


def kind_of(status: int, said: Said, data: dict[str, Any]) -> type[AttemptError] | None:
    """Give the kind of an error by its code or its words; None leaves it to the status."""
    if status in (400, 413, 422, 429) and _TOO_LARGE.search(said.message):
        return Permanent
    if status == 403 and entry(data, "error", "metadata", "reasons"):
        return Permanent  # OpenRouter: this input was flagged, others may pass
    if status == 400 and _NO_MODEL.search(said.message):
        return Unavailable
    return _BY_CODE.get(said.code.lower()) or _BY_CODE.get(said.type.lower())


def hidden_status(data: Any) -> int | None:
    """Give the status that an error inside an answer with success stands for; None if there is no error."""
    if not isinstance(data, dict):
        return None
    error = data if data.get("object") == "error" else data.get("error")
    if error is None:
        return None
    code = entry(error, "code")
    number = int(code) if isinstance(code, int) or (isinstance(code, str) and re.fullmatch("[0-9]{3}", code)) else 500
    return number if 400 <= number < 600 else 500
