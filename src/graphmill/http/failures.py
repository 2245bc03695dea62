"""What an HTTP error means for an attempt: one table for our providers, and for errors that other clients raise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphmill.core.errors import AttemptError, Permanent, Throttled, Transient, Unavailable
from graphmill.http.headers import read_retry_after

_BY_STATUS: dict[int, type[AttemptError]] = {
    **dict.fromkeys((401, 402, 403, 404, 405, 407, 521, 522, 523), Unavailable),
    **dict.fromkeys((408, 409, 425), Transient),
    **dict.fromkeys((429, 503, 529), Throttled),
}
_UNAVAILABLE = (
    "access_terminated",
    "account_deactivated",
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "credit_balance_exhausted",
    "deploymentnotfound",
    "insufficient_quota",
    "invalid_api_key",
    "model_not_found",
    "unsupported_country_region_territory",
)
_PERMANENT = (
    "content_filter",
    "content_policy_violation",
    "context_length_exceeded",
    "invalid_prompt",
    "string_above_max_length",
)
_THROTTLED = ("engine_overloaded", "overloaded", "rate_limit_exceeded", "server_overloaded", "slow_down")
_BY_WORD: dict[str, type[AttemptError]] = {
    **dict.fromkeys(_UNAVAILABLE, Unavailable),
    **dict.fromkeys(_PERMANENT, Permanent),
    **dict.fromkeys(_THROTTLED, Throttled),
}
_STATUS_NAMES = ("status_code", "status", "code")
_WORD_NAMES = ("code", "type")
_WAIT_HEADERS = frozenset({"retry-after", "retry-after-ms", "date"})


def kind_of_status(status: int) -> type[AttemptError]:
    """Return the kind of an error by its status alone; redirects are not followed with a key in hand."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status < 400:
        return Unavailable
    if status < 500:
        return Permanent
    return Transient


def kind_of_words(words: Iterable[str]) -> type[AttemptError] | None:
    """Return the kind of an error by the first known of its words for programs, such as ``insufficient_quota``."""
    return next((kind for word in words if (kind := _BY_WORD.get(word.lower())) is not None), None)


# --- errors of other people's clients ---


def kind_of_client_error(error: BaseException) -> type[AttemptError] | None:
    """Return the kind of an exception that has an HTTP status, as those of httpx, aiohttp or openai have; else None."""
    status = _status(error)
    return None if status is None else kind_of_words(_words(error)) or kind_of_status(status)


def retry_after_of(error: BaseException) -> float | None:
    """Return the wait that the headers of such an exception ask for."""
    if _status(error) is None:
        return None
    found = _attribute(error, "headers") or _attribute(_attribute(error, "response"), "headers")
    try:
        headers = {str(name).lower(): str(value) for name, value in found.items()}
    except Exception:  # noqa: BLE001  it may be anything
        return None
    return read_retry_after({name: value for name, value in headers.items() if name in _WAIT_HEADERS})


def _status(error: BaseException) -> int | None:
    found = [_attribute(error, name) for name in _STATUS_NAMES]
    found.append(_attribute(_attribute(error, "response"), "status_code"))
    return next((int(value) for value in found if _is_error_status(value)), None)


def _is_error_status(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600


def _words(error: BaseException) -> Iterator[str]:
    body = _attribute(error, "body")  # openai's is the error itself, anthropic's holds it
    within = body.get("error") if isinstance(body, Mapping) else None
    for source in (error, body, within):
        for name in _WORD_NAMES:
            word = source.get(name) if isinstance(source, Mapping) else _attribute(source, name)
            if isinstance(word, str):
                yield word


def _attribute(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name, None)
    except Exception:  # noqa: BLE001  a property of somebody else's class
        return None
