"""Faults that a script can name: each ends an attempt as the same fault of a real provider does."""

from __future__ import annotations

from graphmill.core.errors import AttemptError, Permanent, Throttled, Transient, Unavailable
from graphmill.core.model_call import FinishReason
from graphmill.core.rate_limits import RateLimits
from graphmill.core.usage import Usage

ENDS = {
    "length": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSAL,
    "content_filter": FinishReason.CONTENT_FILTER,
    "other_end": FinishReason.OTHER,
}
SILENCE = "silence"
_ERRORS: dict[str, tuple[type[AttemptError], str]] = {
    "throttled": (Throttled, "answered 429: too many requests"),
    "overloaded": (Throttled, "answered 529: overloaded"),
    "server_error": (Transient, "answered 500: an error of the server"),
    "truncated": (Transient, "the answer was cut"),
    "bad_json": (Transient, "the answer is no JSON, or was cut"),
    "empty": (Transient, "the answer has no choices"),
    "error_in_answer": (Transient, "answered 500: an error inside an answer with success"),
    "reset": (Transient, "the connection was closed before the answer was there"),
    "web_page": (Unavailable, "a web page came back instead of an answer"),
    "down": (Unavailable, "can not connect: connection refused"),
    "no_credit": (Unavailable, "answered 402: no credit is left; add credit"),
    "key_refused": (Unavailable, "answered 401: the key is refused; check the key"),
    "model_missing": (Unavailable, "answered 404: no such model; check the model's name and the address"),
    "too_long": (Permanent, "answered 400: the prompt is longer than the model can take"),
}
_UNSENT = frozenset({"down"})
FAULTS = (*ENDS, *_ERRORS, SILENCE)


def fault_error(name: str, retry_after_s: float | None = None) -> AttemptError:
    """Give the error of a fault that is no end of an answer."""
    kind, message = _ERRORS[name]
    text = f"scripted: {message}"
    error = kind(text, retry_after_s=retry_after_s) if issubclass(kind, Throttled | Transient) else kind(text)
    error.usage = None if name in _UNSENT else Usage(requests=1, cost_usd=0.0)
    error.limits = None if retry_after_s is None else RateLimits(retry_after_s=retry_after_s)
    return error
