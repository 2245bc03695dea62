"""What an error answer means for the attempt: by its status, where the provider knows nothing better, and in what words."""

from __future__ import annotations

from typing import NamedTuple

from graphmill.core.errors import AttemptError, Permanent, Throttled, Transient, Unavailable, cut
from graphmill.core.rate_limits import RateLimits
from graphmill.core.usage import Usage

_MOST_SAID_CHARS = 2000
_BY_STATUS: dict[int, type[AttemptError]] = {
    401: Unavailable,
    402: Unavailable,
    403: Unavailable,
    404: Unavailable,
    405: Unavailable,
    407: Unavailable,
    408: Transient,
    409: Transient,
    425: Transient,
    429: Throttled,
    503: Throttled,
    521: Unavailable,
    522: Unavailable,
    523: Unavailable,
    529: Throttled,
}
_MOVED = "the address has moved; set the new one"
_REMEDIES = {
    401: "check the key",
    402: "add credit",
    403: "check what the key may use",
    404: "check the model's name and the address",
}


class Said(NamedTuple):
    """What the body of an error says: a message, and the words for programs."""

    message: str = ""
    type: str = ""
    code: str = ""


def kind_of_status(status: int) -> type[AttemptError]:
    """Give the kind of an error by its status alone; a redirect is none that we follow, with a key in hand."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status < 400:
        return Unavailable
    return Permanent if status < 500 else Transient


def error_of(
    provider: str, status: int, said: Said, *, kind: type[AttemptError], limits: RateLimits | None = None
) -> AttemptError:
    """Make the error; what the request has used is a request, and nothing that is paid for."""
    words = " ".join(
        filter(
            None, [f"{provider} answered {status}:", cut(" ".join(said.message.split()), _MOST_SAID_CHARS), _code(said)]
        )
    )
    text = "; ".join(filter(None, [words.removesuffix(":"), _remedy(status) if kind is Unavailable else ""]))
    wait_s = None if limits is None else limits.retry_after_s
    error = kind(text, retry_after_s=wait_s) if issubclass(kind, Throttled | Transient) else kind(text)
    error.usage, error.limits = Usage(requests=1, cost_usd=0.0), limits
    return error


def _remedy(status: int) -> str:
    return _MOVED if 300 <= status < 400 else _REMEDIES.get(status, "")


def _code(said: Said) -> str:
    word = said.code or said.type
    return f"({cut(word, 60)})" if word and word != said.message else ""
